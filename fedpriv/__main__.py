"""`python -m fedpriv`."""


def main() -> None:
    from fedpriv.simulations.cli import program as command

    command()


if __name__ == "__main__":
    main()
