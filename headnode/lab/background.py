"""Something of a lab that works in a thread of its own for as long as a block lasts."""

import threading
from types import TracebackType
from typing import Self

PATIENCE = 5.0


class Background:
    """`run` looks at `over` again and again; `close` lets go of what was opened."""

    def __init__(self, name: str) -> None:
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)

    def run(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing, unless there is something."""

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self.thread.join(PATIENCE)
        self.close()
