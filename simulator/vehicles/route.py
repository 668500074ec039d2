"""A closed road on which a vehicle goes round: place, heading, height and grade from the way driven."""

from __future__ import annotations

from math import atan2, cos, degrees, hypot, pi, radians, sin
from random import Random
from typing import Final

METRES_PER_DEGREE: Final = 111_320.0


class Route:
    """A loop of some tens of kilometres near 58.4 N 15.6 E, drawn for each vehicle."""

    __slots__ = (
        "altitude_m",
        "angle",
        "bends",
        "centre_latitude",
        "centre_longitude",
        "east_m",
        "east_scale",
        "grade_ratio",
        "heading_deg",
        "latitude_deg",
        "longitude_deg",
        "north_m",
        "phase",
        "yaw_rate_dps",
    )

    def __init__(self, rng: Random) -> None:
        self.centre_latitude = 58.4 + rng.uniform(-0.2, 0.2)
        self.centre_longitude = 15.6 + rng.uniform(-0.3, 0.3)
        self.east_scale = METRES_PER_DEGREE * cos(radians(self.centre_latitude))
        self.north_m = rng.uniform(3_000.0, 9_000.0)
        self.east_m = rng.uniform(3_000.0, 9_000.0)
        self.bends = rng.randrange(9, 25)
        self.phase = rng.uniform(0.0, 2.0 * pi)
        self.angle = rng.uniform(0.0, 2.0 * pi)
        self.heading_deg = self.yaw_rate_dps = self.altitude_m = self.grade_ratio = 0.0
        self.latitude_deg = self.longitude_deg = 0.0
        self.follow(0.1, 1.0)
        self.yaw_rate_dps = 0.0

    def follow(self, way_m: float, elapsed_s: float) -> None:
        """Go `way_m` along the road in `elapsed_s`."""
        if way_m == 0.0:
            self.yaw_rate_dps = 0.0
            return
        angle, bends, phase = self.angle, self.bends, self.phase
        bend_m = 0.02 * self.north_m
        bend = bends * angle + phase
        north = -self.north_m * sin(angle) - bend_m * bends * sin(bend)
        east = self.east_m * cos(angle) + bend_m * bends * cos(bend)
        length = hypot(north, east)
        self.angle = angle = (angle + way_m / length) % (2.0 * pi)
        bend = bends * angle + phase
        self.latitude_deg = self.centre_latitude + (
            (self.north_m * cos(angle) + bend_m * cos(bend)) / METRES_PER_DEGREE
        )
        self.longitude_deg = self.centre_longitude + (
            (self.east_m * sin(angle) + bend_m * sin(bend)) / self.east_scale
        )
        heading = degrees(atan2(east, north)) % 360.0
        turned = (heading - self.heading_deg + 180.0) % 360.0 - 180.0
        self.heading_deg = heading
        self.yaw_rate_dps = turned / elapsed_s
        # Hills: 35 m up and down, about as often as the road bends.
        self.altitude_m = 80.0 + 35.0 * sin(bend * 0.7) + 15.0 * sin(3.0 * angle)
        self.grade_ratio = (24.5 * bends * cos(bend * 0.7) + 45.0 * cos(3.0 * angle)) / length
