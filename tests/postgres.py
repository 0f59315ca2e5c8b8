"""The tests' PostgreSQL: TEST_DATABASE_URL, else the benchmark's server from a wheel."""

from cayu_runtime.benchmark.postgres import PostgresMissing, PostgresServer

__all__ = ["PostgresMissing", "PostgresServer"]
