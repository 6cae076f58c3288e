"""The one thread that owns the GPU. Callers of several threads share its batches."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from edge.errors import DetectorError, DeviceLostError, EdgeError
from edge.inference.lane import Inputs, Lane
from edge.nvidia.cuda import Cuda, immortal
from edge.nvidia.engine import Engine
from edge.nvidia.tensorrt_api import load_tensorrt
from edge.types import Float32

# How long the first of several callers waits for the others to come back, so that they share a batch again.
FILL_S = 0.001
CLOSE_S = 10.0
Shapes = tuple[tuple[int, ...], ...]
Outputs = dict[str, Float32]


class Request:
    """Inputs of one caller. shapes: of one item of each input, in the order of the engine's inputs."""

    __slots__ = ("batch", "inputs", "result", "shapes")

    def __init__(self, inputs: Inputs, shapes: Shapes, batch: int) -> None:
        self.inputs, self.shapes, self.batch = inputs, shapes, batch
        self.result: Future[Outputs] = Future()


class Call:
    """Something else to do in the owner's thread."""

    __slots__ = ("function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.result: Future[Any] = Future()


class GpuThread:
    """Everything on the GPU, in a thread of its own. Holds no reference to its `TensorRtRuntime`."""

    def __init__(self, payloads: Sequence[bytes], title: str, graphs: bool) -> None:
        self._title, self._graphs = title, graphs
        self._incoming: queue.SimpleQueue[Request | Call | None] = queue.SimpleQueue()
        self._pending: deque[Request | Call | None] = deque()
        self._lock = threading.Lock()
        self._ended: EdgeError | None = None
        self._callers: dict[Shapes, int] = {}
        self.batches: dict[int, int] = {}       # size -> runs; replaced, never changed: others read it
        self.engines: list[Engine] = []
        self.lanes: dict[Shapes, list[Lane]] = {}
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, args=(payloads, ready), name="gpu", daemon=True)
        self._thread.start()
        ready.result()

    def submit(self, item: Request | Call) -> Any:
        """Hand over, and wait for the result."""
        with self._lock:
            if self._ended is not None:
                raise _again(self._ended)
            self._incoming.put(item)
        return item.result.result()

    def stop(self) -> None:
        """Finish what was submitted, free everything, end the thread. Harmless when repeated."""
        with self._lock:
            if self._ended is None:
                self._ended = DetectorError(f"{self._title} is closed")
                self._incoming.put(None)
        if not isinstance(self._ended, DeviceLostError) and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_S)

    def _main(self, payloads: Sequence[bytes], ready: Future[None]) -> None:
        cuda: Cuda | None = None
        failure: BaseException | None = None
        try:
            cuda = Cuda()
            self._open(cuda, payloads)
        except BaseException as error:
            with self._lock:
                self._ended = DetectorError(f"{self._title} is closed")
            failure = _without_frames(error)
        del payloads
        if failure is None:
            ready.set_result(None)
            self._serve()
        if cuda is not None and not self._close(cuda):
            self._park(ready, failure)
        if failure is not None:
            ready.set_exception(failure)

    def _serve(self) -> None:
        """Work until there is nothing more to do, or nothing works any more."""
        while (item := self._next()) is not None:
            if isinstance(item, Call):
                self._answer([item], functools.partial(_run_call, item))
            else:
                batch = self._gather(item)
                self._answer(batch, functools.partial(self._run_batch, batch))
                self._count_callers(batch)
            if isinstance(self._ended, DeviceLostError):
                return

    def _run_batch(self, batch: Sequence[Request]) -> list[Outputs]:
        outputs = self.lane(batch).run([one.inputs for one in batch])
        size = sum(one.batch for one in batch)
        self.batches = {**self.batches, size: self.batches.get(size, 0) + 1}
        return outputs

    def _open(self, cuda: Cuda, payloads: Sequence[bytes]) -> None:
        self._cuda, self.gpu, self.library = cuda, cuda.name, load_tensorrt()
        for payload in payloads:
            self.engines.append(Engine(self.library, payload, self._title))
        scratch_bytes = max(engine.scratch_bytes for engine in self.engines)
        self._scratch = cuda.scratch(scratch_bytes), scratch_bytes
        for engine in self.engines:
            for profile in engine.profiles:
                shapes = tuple(profile.shapes[tensor.name][1:] for tensor in engine.inputs)
                self.lanes.setdefault(shapes, []).append(Lane(cuda, engine, profile, self._scratch, self._graphs))
        for lanes in self.lanes.values():
            lanes.sort(key=lambda lane: lane.most_batch)

    def _close(self, cuda: Cuda) -> bool:
        """Free contexts, then engines, then memory. False when nothing can be freed any more."""
        if isinstance(self._ended, DeviceLostError):
            return False
        for lanes in self.lanes.values():
            for lane in lanes:
                lane.close()
        self.lanes.clear()
        for engine in self.engines:
            engine.close()
        self.engines.clear()
        try:
            cuda.close()
        except cuda.errors:
            return False
        return True

    def _next(self) -> Request | Call | None:
        self._drain()
        return self._pending.popleft() if self._pending else self._incoming.get()

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._pending.append(self._incoming.get_nowait())

    def _gather(self, first: Request) -> list[Request]:
        """Requests of the same size that fit into one batch.

        A single caller never waits. Where more callers were seen last time than are here now, the others are likely to
        be back within `FILL_S`.
        """
        most = self.lanes[first.shapes][-1].most_batch
        expected = min(most, self._callers.get(first.shapes, 1))
        deadline_s = time.monotonic() + FILL_S
        batch, total = [first], first.batch
        while True:
            self._drain()
            others: deque[Request | Call | None] = deque()
            for item in self._pending:
                if isinstance(item, Request) and item.shapes == first.shapes and total + item.batch <= most:
                    batch.append(item)
                    total += item.batch
                else:
                    others.append(item)
            self._pending = others
            wait_s = deadline_s - time.monotonic()
            if total >= expected or wait_s <= 0:
                return batch
            with contextlib.suppress(queue.Empty):
                self._pending.append(self._incoming.get(timeout=wait_s))

    def _count_callers(self, batch: Sequence[Request]) -> None:
        """Remember how many there are for this size: those just served, and those who came meanwhile."""
        self._drain()
        shapes = batch[0].shapes
        waiting = [item for item in self._pending if isinstance(item, Request) and item.shapes == shapes]
        self._callers[shapes] = sum(one.batch for one in (*batch, *waiting))

    def lane(self, batch: Sequence[Request]) -> Lane:
        """The tightest one that these requests fit into together."""
        total = sum(one.batch for one in batch)
        return next(lane for lane in self.lanes[batch[0].shapes] if lane.least_batch <= total <= lane.most_batch)

    def _answer(self, items: Sequence[Request | Call], work: Callable[[], Sequence[Any]]) -> None:
        """Do the work and settle the futures; find out whether the GPU is lost when it fails."""
        try:
            results = work()
        except Exception as error:
            said = self.library.log.last_errors()
            self.library.log.clear()
            why = f"{error}; TensorRT: {said}" if said and said not in str(error) else str(error)
            if self._cuda.is_lost():
                self._lose(f"the GPU failed and takes no more work ({why})", items)
            else:
                for item in items:
                    item.result.set_exception(DetectorError(f"TensorRT failed ({why})"))
            return
        for item, result in zip(items, results, strict=True):
            item.result.set_result(result)

    def _lose(self, why: str, items: Sequence[Request | Call]) -> None:
        """Fail all who wait, and all who come."""
        self._cuda.abandon()
        immortal(self)
        with self._lock:
            self._ended = DeviceLostError(why, "start again; if it comes back, see dmesg for NVRM or nvgpu messages")
        self._drain()
        for item in (*items, *self._pending):
            if item is not None:
                item.result.set_exception(_again(self._ended))
        self._pending.clear()

    def _park(self, ready: Future[None], failure: BaseException | None) -> None:
        """Never come back: pycuda aborts the process when this thread ends with a context on its stack."""
        if failure is not None:
            ready.set_exception(failure)
        threading.Event().wait()


def _run_call(call: Call) -> list[Any]:
    return [call.function()]


def _again(error: EdgeError) -> EdgeError:
    """The same error, to be raised in another thread: a traceback belongs to one."""
    return type(error)(error.message, error.remedy)


def _without_frames(error: BaseException) -> BaseException:
    """Drop tracebacks: their frames keep objects of the GPU alive beyond its context."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
