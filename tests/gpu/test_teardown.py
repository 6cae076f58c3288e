"""However a process ends, it ends: no abort of pycuda, no hang, the right exit code. Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge.errors import DeviceLostError
from tests.gpu.conftest import ROOT

START = """
import sys, threading, time
from pathlib import Path
import numpy as np
from edge.errors import DetectorError, DeviceLostError
from edge.inference.tensorrt import TensorRtRuntime
payload = Path(sys.argv[1]).read_bytes()
picture = np.zeros((1, 384, 640, 3), np.uint8)
runtime = TensorRtRuntime([payload], "net")
runtime.run(picture)
"""
ENDS = {
    "closed": "runtime.close()",
    "closed twice": "runtime.close(); runtime.close()",
    "left open": "pass",
    "dropped": "del runtime; import gc; gc.collect()",
    "closed in another thread": "t = threading.Thread(target=runtime.close); t.start(); t.join()",
    "closed at the very end": "import atexit; atexit.register(runtime.close)",
    "two, first first": "other = TensorRtRuntime([payload], 'o'); other.run(picture); runtime.close(); other.close()",
    "two, last first": "other = TensorRtRuntime([payload], 'o'); other.run(picture); other.close(); runtime.close()",
    "two, one left": "other = TensorRtRuntime([payload], 'o'); runtime.close(); other.run(picture)",
    "opened again": "runtime.close(); runtime = TensorRtRuntime([payload], 'o'); runtime.run(picture)",
    "refused before": "\ntry: TensorRtRuntime([b'no plan'], 'o')\nexcept Exception as error: del error",
    "busy": (
        "\ndef work():\n"
        "    try:\n"
        "        while True: runtime.run(picture)\n"
        "    except DetectorError: pass\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[t.start() for t in threads]; time.sleep(0.2); runtime.close(); [t.join() for t in threads]"
    ),
    "an object that outlives everything": "sys.modules['keeper'] = runtime",
}
# A kernel that reads from an address that is nobody's: the context is broken from then on.
BREAK = START + (
    "lane = next(iter(runtime._owner.lanes.values()))[0]\n"
    "runtime._in_owner(lambda: lane._context.set_address('picture', 1 << 20))\n"
    "for attempt in range(3):\n"
    "    try:\n"
    "        runtime.run(picture)\n"
    "    except DeviceLostError as error:\n"
    "        print(attempt, error, flush=True)\n"
    "        last = error\n"
    "runtime.close()\n"
    "sys.exit(last.exit_code)\n"
)


def run(code: str, plan: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}
    command = [sys.executable, "-c", code, str(plan)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_it_ends_without_an_abort(plan: Callable[..., Path], end: str) -> None:
    started_s = time.monotonic()
    done = run(START + end, plan("yunet_n"))
    assert done.returncode == 0, done.stderr
    assert "PyCUDA" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert time.monotonic() - started_s < 30


def test_a_broken_context_ends_the_process_with_its_code(plan: Callable[..., Path]) -> None:
    done = run(BREAK, plan("yunet_n"))
    assert done.returncode == DeviceLostError.exit_code == 75, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"], done.stdout
    assert all("the GPU failed and takes no more work" in line for line in lines)
    assert "PyCUDA ERROR" not in done.stderr


def test_memory_comes_back(plan: Callable[..., Path]) -> None:
    code = START + (
        "from edge.nvidia.cuda import Cuda, load_pycuda\n"
        "free = []\n"
        "def measure():\n"
        "    cuda = Cuda()\n"
        "    try: free.append(load_pycuda().mem_get_info()[0])\n"
        "    finally: cuda.close()\n"
        "for number in range(12):\n"
        "    runtime.close()\n"
        "    thread = threading.Thread(target=measure); thread.start(); thread.join()\n"
        "    runtime = TensorRtRuntime([payload], 'net')\n"
        "    runtime.run(picture)\n"
        "print(*free)\n"
    )
    done = run(code, plan("yunet_n"))
    assert done.returncode == 0, done.stderr
    free = [int(word) for word in done.stdout.split()]
    assert free[2] - free[-1] < 4 << 20, [number >> 20 for number in free]
