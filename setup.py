"""The wheel: the four folders beside `fedpriv/` are installed as parts of the package `fedpriv`."""

from setuptools import find_packages, setup

PARTS = ("clients", "strategies", "attacks", "simulations")
below = [f"{part}.{name}" for part in PARTS for name in find_packages(part)]

setup(
    packages=[
        *find_packages(include=["fedpriv", "fedpriv.*"]),
        *(f"fedpriv.{name}" for name in (*PARTS, *below)),
    ],
    package_dir={f"fedpriv.{part}": part for part in PARTS},
)
