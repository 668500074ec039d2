"""A wire with loss and delay in user space between two namespaces: for tests, on any kernel."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import random
import selectors
import socket
import threading
import time

from simulator.links import addressing, namespaces, wiring

PACKET_OUTGOING = 4


class LossyWire:
    """Two namespaces with a third between them, in which a thread copies frames, late, or drops them."""

    vehicles_device = addressing.VEHICLES_SIDE.device

    def __init__(self, run, *, loss_ratio=0.0, delay_s=0.0, seed=5):
        self.vehicles_namespace, self.cloud_namespace = f"ivsim-{run}-v", f"ivsim-{run}-c"
        self._middle = f"ivsim-{run}-m"
        self.loss_ratio, self._delay_s = loss_ratio, delay_s
        self._seed, self._randoms = seed, {}
        self._stack = contextlib.ExitStack()
        self._stop = threading.Event()
        self.dropped = 0

    def __enter__(self):
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._stack.close()

    def _open(self):
        up, down = addressing.VEHICLES_SIDE, addressing.CLOUD_SIDE
        up = dataclasses.replace(up, router_address="192.0.2.1", router_mac=down.mac)
        down = dataclasses.replace(down, address="192.0.2.1", router_address="192.0.2.2", router_mac=up.mac)
        for name in (self.vehicles_namespace, self.cloud_namespace, self._middle):
            wiring.make_namespace(self._stack, name)
        wiring.veth((self.vehicles_namespace, up.device, up.mac), (self._middle, "mid0", "02:00:00:00:00:10"))
        wiring.veth(
            (self.cloud_namespace, down.device, down.mac), (self._middle, "mid1", "02:00:00:00:00:11")
        )
        wiring.address_side(self.vehicles_namespace, up)
        wiring.address_side(self.cloud_namespace, down)
        with namespaces.inside(self._middle):
            self._sockets = [self._stack.enter_context(_packet_socket(f"mid{k}")) for k in (0, 1)]
        self._thread = threading.Thread(target=self._copy)
        self._thread.start()

    def _copy(self):
        waiting, count = [], 0
        with selectors.DefaultSelector() as selector:
            for here, there in (self._sockets, self._sockets[::-1]):
                selector.register(here, selectors.EVENT_READ, there)
            while not self._stop.is_set():
                timeout = max(waiting[0][0] - time.monotonic(), 0) if waiting else 0.05
                for key, _ in selector.select(min(timeout, 0.05)):
                    frame, address = key.fileobj.recvfrom(65_536)
                    if address[2] == PACKET_OUTGOING:
                        continue
                    if self._draw(frame) < self.loss_ratio:
                        self.dropped += 1
                        continue
                    count += 1
                    heapq.heappush(waiting, (time.monotonic() + self._delay_s, count, frame, key.data))
                while waiting and waiting[0][0] <= time.monotonic():
                    _, _, frame, there = heapq.heappop(waiting)
                    there.send(frame)

    def _draw(self, frame):
        """Each way of each vehicle has draws of its own: which of its frames are lost is the same in every run.

        Of one sequence for all, a vehicle would get what the others leave, and sometimes lose nothing.
        """
        way = frame[26:34].hex()  # the addresses of source and destination
        if way not in self._randoms:
            self._randoms[way] = random.Random(f"{self._seed} {way}")
        return self._randoms[way].random()


def _packet_socket(device):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((device, 3))
    return raw
