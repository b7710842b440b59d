"""Let `python -m groupsdk.history` do what `groupsdk history` does."""

from groupsdk.history.command import main


if __name__ == "__main__":
    raise SystemExit(main())
