"""The tasks of Spark: how readers and writers get to them, and the query, the batch and the run that they work for."""

import pickle
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext

from waypost.spark.option_values import is_guid

# Properties of tasks that name their query and its run: the run itself, or the group of its jobs, which has the same
# GUID unless the user has named it otherwise.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "sql.streaming.runId"
_JOB_GROUP: Final = "spark.jobGroup.id"
# The execution of a query of SQL, such as one write in a foreachBatch.
_EXECUTION: Final = "spark.sql.execution.id"


@dataclass(frozen=True, slots=True)
class QueryTask:
    """A task of a query. The run is a GUID; run and execution are empty texts if they are unknown."""

    query: str
    batch: int
    run: str
    execution: str


def query_task() -> QueryTask | None:
    """The present task; None outside of a query, or if Spark does not name its query and batch."""
    return task_of(TaskContext.get())


def task_of(context: TaskContext | None) -> QueryTask | None:
    query = context.getLocalProperty(_QUERY) if context else None
    batch = context.getLocalProperty(_BATCH) if context else None
    if context is None or not query or batch is None:
        return None
    return QueryTask(query, int(batch), run_of(context), context.getLocalProperty(_EXECUTION) or "")


def run_of(context: TaskContext | None) -> str:
    """The run of the query that a task works for: a GUID, or an empty text if it is unknown.

    Outside of a query, a group of jobs belongs to the user, even if its name is a GUID.
    """
    if context is None or not context.getLocalProperty(_QUERY):
        return ""
    for name in (_RUN, _JOB_GROUP):
        found = context.getLocalProperty(name)
        if found and is_guid(found):
            return found
    return ""


# --- Readers and writers ----------------------------------------------------------------------------------------------


def unpack(content: bytes) -> Any:
    try:
        return pickle.loads(content)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the Python installation of a Spark worker does not contain the module {error.name}: install "
            "waypost[spark] in this Python installation, with the same version as on the driver, or set PYSPARK_PYTHON "
            "to a Python interpreter with waypost[spark]",
            name=error.name,
        ) from None


# Functions of __main__ travel by value, so that this one needs no package on the worker.
unpack.__module__ = "__main__"


class Shipped:
    """An object that a worker creates again from the constructor arguments, without open connections."""

    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the constructor."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (pickle.dumps(_Parcel(type(self), self.arguments())),)


class _Parcel:
    """A pickle of the object's arguments that becomes the object. Pickling Shipped itself would never end."""

    def __init__(self, kind: type, arguments: tuple[Any, ...]) -> None:
        self._made = (kind, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made
