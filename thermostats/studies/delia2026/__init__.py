"""D'Elia 2026: importer, audit and figures of the preprint."""

from thermostats.claims.study import Study

HOME = "thermostats.studies.delia2026"
STUDY = Study(
    name="delia2026",
    title="D'Elia 2026, Thermodynamic Constraints in Transformer Architectures",
    source="10.5281/zenodo.18165365",
    citation={
        "key": "delia2026thermodynamic",
        "author": "D'Elia, Davide",
        "title": "Thermodynamic Constraints in Transformer Architectures: A Sheaf-Theoretic Perspective",
        "year": "2026",
        "doi": "10.5281/zenodo.18165365",
    },
    importer=f"{HOME}.importer.import_files:import_files",
    pages={"figures": f"{HOME}.figures_page"},
)
