"""`python -m fedpriv`."""


def main() -> None:
    from simulations.cli import main as command

    command()


if __name__ == "__main__":
    main()
