"""`python -m benchmarks.stores` runs `benchmarks.stores.run`."""

from benchmarks.stores.run import main

if __name__ == "__main__":
    main()
