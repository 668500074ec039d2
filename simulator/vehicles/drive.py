"""How a truck drives: speed, gears, energy and heat along a route; knows nothing of messages."""

from __future__ import annotations

from random import Random
from typing import Final

from simulator.vehicles.route import Route

AIR_FACTOR: Final = 0.5 * 1.2 * 5.6  # rho/2 * cd*A of a tractor, kg/m
ROLLING: Final = 0.0065
GRAVITY: Final = 9.81
WHEEL_M: Final = 3.1  # rolling circumference
IDLE_RPM: Final = 600.0
TOP_GEAR: Final = 12
# Twelve ratios in equal steps from 14.9 to 1.0, times a final drive of 2.6.
RATIOS: Final = (0.0, *(2.6 * 14.9 ** ((TOP_GEAR - k) / (TOP_GEAR - 1)) for k in range(1, TOP_GEAR + 1)))
RATED_KW: Final = {"rigid": 260.0, "trailer": 370.0, "hybrid": 280.0, "stub": 260.0}
MASS_KG: Final = {"rigid": (9_000, 18_000), "trailer": (18_000, 38_000), "hybrid": (11_000, 24_000)}
LIMITS_KMH: Final = (30.0, 50.0, 50.0, 60.0, 70.0, 70.0, 80.0, 80.0, 85.0)
MOTOR_KW: Final = 120.0
PACK_WH: Final = 32_000.0


class Drive:
    """Physical state of one vehicle, in the units that the names say; `step` moves it on."""

    __slots__ = (
        "acceleration_mps2",
        "ambient_c",
        "brake_pct",
        "charge_pct",
        "coolant_c",
        "driven_s",
        "engine_rpm",
        "exhaust_c",
        "fuel_lph",
        "fuel_pct",
        "gear",
        "gearbox_c",
        "hybrid",
        "idle_s",
        "leg_left_m",
        "mass_kg",
        "motor_kw",
        "odometer_m",
        "oil_c",
        "pack_c",
        "parked",
        "pedal_pct",
        "rated_kw",
        "recuperated_wh",
        "reductant_pct",
        "retarder_pct",
        "rng",
        "route",
        "running_s",
        "soot_pct",
        "speed_mps",
        "standing_s",
        "stop_left_s",
        "stops_next",
        "target_mps",
        "torque_pct",
        "trip_m",
        "tyre_c",
        "used_ml",
        "used_wh",
    )

    def __init__(self, variant: str, rng: Random) -> None:
        self.rng = rng
        self.route = Route(rng)
        self.hybrid = variant == "hybrid"
        self.parked = variant == "stub"
        self.mass_kg = float(rng.randrange(*MASS_KG.get(variant, (9_000, 18_000)), 20))
        self.rated_kw = RATED_KW[variant]
        self.ambient_c = rng.uniform(-6.0, 24.0)
        self.speed_mps = 0.0 if self.parked else rng.uniform(0.0, 23.0)
        self.acceleration_mps2 = 0.0
        self.target_mps = self.speed_mps
        self.leg_left_m = rng.uniform(0.0, 3_000.0)
        self.stop_left_s = 0.0
        self.stops_next = False
        self.standing_s = 0.0
        self.driven_s = rng.uniform(0.0, 9_000.0)  # since the driver last rested
        self.gear = 0
        self.engine_rpm = IDLE_RPM
        self.torque_pct = self.pedal_pct = self.brake_pct = self.retarder_pct = 0.0
        self.fuel_lph = 2.2
        self.used_ml = rng.uniform(2e7, 2e8)
        self.fuel_pct = rng.uniform(12.0, 98.0)
        self.odometer_m = rng.uniform(3e7, 9e8)
        self.trip_m = 0.0
        self.running_s = self.odometer_m / 16.0
        self.idle_s = self.running_s * rng.uniform(0.1, 0.3)
        warmth = rng.choice((0.3, 1.0, 1.0, 1.0))  # one in four has just left the yard
        self.coolant_c = self.ambient_c + warmth * (86.0 - self.ambient_c)
        self.oil_c = self.ambient_c + warmth * (98.0 - self.ambient_c)
        self.exhaust_c = self.ambient_c + warmth * 220.0
        self.gearbox_c = self.ambient_c + warmth * 50.0
        self.tyre_c = self.ambient_c + warmth * 18.0
        self.soot_pct = rng.uniform(5.0, 70.0)
        self.reductant_pct = rng.uniform(15.0, 98.0)
        self.charge_pct = rng.uniform(30.0, 85.0)
        self.motor_kw = 0.0
        self.pack_c = self.ambient_c + 10.0
        self.used_wh = rng.uniform(1e6, 4e7)
        self.recuperated_wh = self.used_wh * 0.3

    def step(self, elapsed_s: float) -> None:
        """Move on by `elapsed_s` (above 0, at most 1)."""
        if self.parked:
            return
        self._choose_speed(elapsed_s)
        force_n = self._move(elapsed_s)
        self._shift()
        self._burn(force_n * self.speed_mps / 1e3, elapsed_s)
        self._warm(elapsed_s)

    def _choose_speed(self, elapsed_s: float) -> None:
        """Follow the leg's limit, brake in time for its end, stand where it says so."""
        draw, speed = self.rng.random, self.speed_mps
        if self.stop_left_s > 0.0:
            self.stop_left_s -= elapsed_s
            self.acceleration_mps2 = -speed / elapsed_s
            return
        self.leg_left_m -= speed * elapsed_s
        if self.leg_left_m <= 0.0:
            self._next_leg()
        wanted = self.target_mps * (1.0 + 0.02 * (draw() - 0.5))
        if self.stops_next and speed * speed > 1.5 * max(self.leg_left_m - 5.0, 0.5):
            wish = -speed * speed / (2.0 * max(self.leg_left_m, 3.0))
        else:
            wish = (wanted - speed) * 0.25
        ceiling = min(1.1, 0.55 * self.rated_kw * 1e3 / (self.mass_kg * max(speed, 4.0)))
        wish = min(max(wish, -2.2), ceiling)
        # Pedals move in a second or so: the jerk of a loaded truck is small.
        self.acceleration_mps2 += (wish - self.acceleration_mps2) * min(1.0, 0.7 * elapsed_s)

    def _next_leg(self) -> None:
        rng = self.rng
        if self.stops_next:
            self.stop_left_s = rng.choice((6.0, 15.0, 30.0, 45.0, 90.0)) * rng.uniform(0.5, 1.5)
        self.target_mps = rng.choice(LIMITS_KMH) / 3.6
        self.leg_left_m = self.target_mps * rng.uniform(25.0, 240.0)
        self.stops_next = rng.random() < (0.75 if self.target_mps < 15.0 else 0.2)

    def _move(self, elapsed_s: float) -> float:
        """Move the vehicle; return the force at the wheels, N (negative: braking)."""
        before = self.speed_mps
        speed = max(before + self.acceleration_mps2 * elapsed_s, 0.0)
        if speed < 0.3 and self.acceleration_mps2 <= 0.0:
            speed = 0.0
        self.acceleration_mps2 = (speed - before) / elapsed_s
        self.speed_mps = speed
        way_m = (before + speed) * 0.5 * elapsed_s
        if speed > 0.0:
            self.standing_s = 0.0
            # 4.5 hours at the most, then the rest that the law asks for begins a new count.
            self.driven_s = (self.driven_s + elapsed_s) % 16_200.0
        else:
            self.standing_s += elapsed_s
        self.odometer_m += way_m
        self.trip_m += way_m
        self.route.follow(way_m, elapsed_s)
        if speed == 0.0:
            return 0.0
        weight_n = self.mass_kg * GRAVITY
        resistance_n = weight_n * (ROLLING + self.route.grade_ratio) + AIR_FACTOR * speed * speed
        return resistance_n + self.mass_kg * self.acceleration_mps2

    def _shift(self) -> None:
        """Keep the engine between 900 and 1,500 rpm; one or two gears at a time."""
        speed = self.speed_mps
        if speed < 0.5:
            self.gear = 0
            self.engine_rpm = IDLE_RPM + 12.0 * (self.rng.random() - 0.5)
            return
        turns = speed / WHEEL_M * 60.0
        gear = max(self.gear, 1)
        while gear < TOP_GEAR and turns * RATIOS[gear] > 1_450.0:
            gear += 1
        while gear > 1 and turns * RATIOS[gear] < 900.0:
            gear -= 1
        self.gear = gear
        self.engine_rpm = max(turns * RATIOS[gear], IDLE_RPM)

    def _burn(self, wheel_kw: float, elapsed_s: float) -> None:
        """Share the power between engine, motor and brakes; count fuel and charge."""
        engine_kw = max(wheel_kw, 0.0) / 0.92 + 4.0
        self.motor_kw = 0.0
        if self.hybrid:
            engine_kw -= self._assist(wheel_kw, elapsed_s)
        engine_kw = min(max(engine_kw, 3.0), self.rated_kw)
        full_kw = self.rated_kw * min(1.0, self.engine_rpm / 1_300.0)
        self.torque_pct = min(100.0, 100.0 * engine_kw / full_kw)
        slowing_kw = max(-wheel_kw + self.motor_kw * self.hybrid, 0.0)
        self.retarder_pct = min(100.0, slowing_kw / 3.0) if self.speed_mps > 8.0 else 0.0
        self.brake_pct = min(100.0, slowing_kw / 4.0 + 6.0) if self.acceleration_mps2 < -0.6 else 0.0
        self.pedal_pct = 0.0 if wheel_kw <= 0.0 else min(100.0, self.torque_pct * 0.92 + 4.0)
        coasting = wheel_kw < 0.0 and self.speed_mps > 3.0
        self.fuel_lph = 0.0 if coasting else 1.2 + engine_kw * 0.235  # 196 g/kWh at 0.835 kg/l
        burnt_ml = self.fuel_lph * elapsed_s / 3.6
        self.used_ml += burnt_ml
        self.fuel_pct -= burnt_ml / 6_000.0  # 600 l
        self.reductant_pct -= burnt_ml / 40_000.0
        if self.fuel_pct < 6.0:
            self.fuel_pct = 97.0  # the driver has been to the pump
        if self.reductant_pct < 8.0:
            self.reductant_pct = 96.0
        self.running_s += elapsed_s
        if self.speed_mps == 0.0:
            self.idle_s += elapsed_s

    def _assist(self, wheel_kw: float, elapsed_s: float) -> float:
        """Return what the motor adds, kW (0 while it recuperates)."""
        if wheel_kw < 0.0:
            self.motor_kw = max(wheel_kw * 0.6, -MOTOR_KW) if self.charge_pct < 92.0 else 0.0
            self.recuperated_wh -= self.motor_kw * elapsed_s / 3.6
        elif self.charge_pct > 20.0:
            self.motor_kw = min(wheel_kw * 0.3, MOTOR_KW)
            self.used_wh += self.motor_kw * elapsed_s / 3.6
        else:
            self.motor_kw = -8.0  # the engine charges the pack
        self.charge_pct -= self.motor_kw * elapsed_s / 3.6 / PACK_WH * 100.0
        self.pack_c += (self.ambient_c + 8.0 + abs(self.motor_kw) * 0.15 - self.pack_c) * 0.0008 * elapsed_s
        return self.motor_kw

    def _warm(self, elapsed_s: float) -> None:
        """Let each temperature follow its cause with its own time constant."""
        load = self.torque_pct * 0.01
        self.coolant_c += (82.0 + 7.0 * load - self.coolant_c) * elapsed_s / 240.0
        self.oil_c += (90.0 + 14.0 * load - self.oil_c) * elapsed_s / 420.0
        self.exhaust_c += (150.0 + 320.0 * load - self.exhaust_c) * elapsed_s / 25.0
        self.gearbox_c += (self.ambient_c + 48.0 + 18.0 * load - self.gearbox_c) * elapsed_s / 900.0
        self.tyre_c += (self.ambient_c + self.speed_mps * 0.9 - self.tyre_c) * elapsed_s / 1_200.0
        self.soot_pct += (0.003 * load - 0.0006) * elapsed_s
        if self.soot_pct > 80.0 and self.exhaust_c > 330.0:
            self.soot_pct = 8.0  # regenerated
