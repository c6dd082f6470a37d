"""D'Elia 2026: audit and figures of the preprint, and the models that its claims alone ask for."""

from typing import TYPE_CHECKING, Any

from thermostats import import_public
from thermostats.claims.study import InReport, Literature, Study

if TYPE_CHECKING:
    from thermostats.modelling.crowding import fit_crowding as fit_crowding
    from thermostats.modelling.crowding import fit_threshold as fit_threshold
    from thermostats.modelling.entropy import fit_slopes as fit_slopes
    from thermostats.modelling.pairs import fit_invariance as fit_invariance
    from thermostats.modelling.ranking import fit_benchmark as fit_benchmark
    from thermostats.modelling.spectral_ratio import fit_spectral as fit_spectral

HOME = "thermostats.studies.delia2026"
_FITS = {
    "fit_benchmark": "thermostats.modelling.ranking",
    "fit_crowding": "thermostats.modelling.crowding",
    "fit_invariance": "thermostats.modelling.pairs",
    "fit_slopes": "thermostats.modelling.entropy",
    "fit_spectral": "thermostats.modelling.spectral_ratio",
    "fit_threshold": "thermostats.modelling.crowding",
}
__all__ = ["HOME", "STUDY", *_FITS]  # noqa: PLE0604
STUDY = Study(
    name="delia2026",
    title="D'Elia 2026, Thermodynamic Constraints in Transformer Architectures",
    letter="C",
    report=InReport(
        heading="Claims of the study",
        fixed="{% if changed %}changed after its test was first run{% else %}fixed before its test "
        "was run"
        "{% endif %}; the study’s own figures were known"
        "{% if fitted %}; the posterior’s part was added when the result of the test was known{% "
        "endif %}",
        about="A 2026 preprint (D’Elia, doi:10.5281/zenodo.18165365) reports laws for the gain of "
        "the residual stream. "
        "Each of its claims is recomputed here from the study’s own result files and judged by a "
        "rule. A claim’s page "
        "says when its rule was fixed and how it changed. The study’s own figures were known.",
        credit="The study is D’Elia 2026, doi:10.5281/zenodo.18165365. Its figures are used under "
        "its licence; its "
        "sentences are not used.",
        leading=("C04", "C01", "C02", "C03", "C05", "C11", "C10", "C09"),
        further=("C06", "C07", "C13", "C16", "C18.cliches", "C19"),
    ),
    literature=Literature(
        published={
            "key": "delia2026thermodynamic",
            "author": "D'Elia, Davide",
            "title": "Thermodynamic Constraints in Transformer Architectures: A Sheaf-Theoretic "
            "Perspective",
            "year": "2026",
            "doi": "10.5281/zenodo.18165365",
        },
        builds_on=(
            {
                "key": "elhage2021mathematical",
                "author": "Elhage, Nelson and Nanda, Neel and Olsson, Catherine and others",
                "title": "A Mathematical Framework for Transformer Circuits",
                "year": "2021",
                "url": "https://transformer-circuits.pub/2021/framework/index.html",
            },
            {
                "key": "hansen2019toward",
                "author": "Hansen, Jakob and Ghrist, Robert",
                "title": "Toward a spectral theory of cellular sheaves",
                "journal": "Journal of Applied and Computational Topology",
                "year": "2019",
                "doi": "10.1007/s41468-019-00038-7",
            },
            {
                "key": "bodnar2022neural",
                "author": "Bodnar, Cristian and Di Giovanni, Francesco and Chamberlain, Benjamin "
                "Paul and others",
                "title": "Neural Sheaf Diffusion: A Topological Perspective on Heterophily and "
                "Oversmoothing in {GNNs}",
                "howpublished": "Advances in Neural Information Processing Systems",
                "year": "2022",
            },
            {
                "key": "gardner2024transformers",
                "author": "Gardner, R.",
                "title": "Transformers are sheaves: a unified framework for attention via "
                "algebraic topology",
                "year": "2024",
                "note": "unpublished manuscript, as the study cites it",
            },
        ),
    ),
    layers={
        "W_V_spectral_norm_published_thirds_layer_": (
            "W_V",
            "third of the fused weights that the study took for W_V, which is not W_V",
        )
    },
    pages={"figures": f"{HOME}.figures"},
    account=f"{HOME}.growth",
)


def __getattr__(name: str) -> Any:
    """Models of the study are imported when first used."""
    if name not in _FITS:
        models = ", ".join(_FITS)
        raise AttributeError(f"module {HOME!r} has no attribute {name!r}; its models: {models}")
    fit = import_public(_FITS[name], name, HOME)
    globals()[name] = fit
    return fit


def __dir__() -> list[str]:
    return sorted(__all__)
