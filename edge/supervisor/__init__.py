"""The supervisor of the daemon: it starts one process per camera, the inference process and the keeper.

What ends is started again after 0.5 s, doubling to 30 s, and after 0.5 s again once it ran well for a minute. What
ends with 78 (configuration, stale engine) is not tried again before the next reload; other cameras go on. When every
camera ended so, or the inference process, the service ends with 78.

What hangs is killed: no report for 15 s (45 s while it opens a camera, loads a model or recovers files), a camera that
records and writes no frame for `stall_timeout` + 15 s, an inference process that is ready and does not turn for 30 s.

The watchdog of systemd gets its sign of life at a third of its time, from the loop itself, so a loop that does not
turn gives none. It also gets none when restarting single processes does not help: the inference process hung five
times within ten minutes or cannot be killed, or every camera process hung five times. systemd then ends everything and
starts anew. A camera that is away, a full disk, a process in back-off are waiting states: the status says so, and the
sign of life goes on.
"""
