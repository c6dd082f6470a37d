"""The dendrogram: nodes have colours and all but the root a name, none is as light as the page,
tips lie apart."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb

import thermostats
from thermostats.plots.posterior import draw_tree


def test_nodes_have_places_and_colours_of_their_own() -> None:
    tree = thermostats.tree("((lab/a:1,lab/b:1)x:1,(lab/c:1,(lab/tuned:1)lab/d:1)y:1)root;")
    figure, axes = plt.subplots()
    draw_tree(tree, {"lab/a": 0.5, "lab/b": -0.5, "x": 0.0, "y": 0.1}, axes)
    labels = {text.get_text(): text.xy[1] for text in axes.texts}
    assert set(labels) == {"a", "b", "c", "d", "tuned", "x", "y"}
    assert (
        len({labels[name] for name in "abcd"}) == 4
        and labels["tuned"] == labels["d"]
        and labels["x"] == (labels["a"] + labels["b"]) / 2
    )
    colours = [to_rgb(line.get_color()) for line in axes.lines]
    assert max(np.mean(colour) for colour in colours) < 0.85
    plt.close(figure)
