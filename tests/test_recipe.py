"""Recipes: two halves, and which of them is used."""

import pytest

from pucl.recipe import RECIPES, Recipes, settings_to_start_from

MODALITY = Recipes(small={"epochs": 8, "crop": 0.2}, first_look={"digits": {"epochs": 1, "rate": 0.5}})
FRAMEWORK = Recipes(reference={"rate": 0.1, "epochs": 100}, paper={"draws": 9}, small={"epochs": 12})


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("reference", "digits", {"rate": 0.1, "epochs": 100}),
        ("paper", "digits", {"rate": 0.1, "epochs": 100, "draws": 9}),
        ("small", "digits", {"rate": 0.1, "epochs": 12, "crop": 0.2}),  # The framework's epochs.
        (None, "digits", {"rate": 0.5, "epochs": 1}),  # A first look changes the reference too.
        (None, "cifar10", {"rate": 0.1, "epochs": 100}),
    ],
)
def test_the_framework_changes_what_the_modality_changes_of_the_reference(
    name: str | None, data: str, expected: dict[str, object]
) -> None:
    assert settings_to_start_from(name, data, MODALITY, FRAMEWORK) == expected


def test_a_first_look_is_no_recipe_by_name() -> None:
    assert RECIPES == ("reference", "paper", "small")
