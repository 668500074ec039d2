"""Which signal shows what of the drive: names to functions of the drive's state; changes nothing.

Each function takes a drive as it is now, or columns of many drives' states, and gives the same numbers for both: it has
only arithmetic, which NumPy and Python do alike, and the choices below, which they spell differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from simulator.vehicles.drive import MOTOR_KW, PACK_WH

# A drive, or an object with the same attributes as arrays.
Drives = Any


class Signal(NamedTuple):
    """What a reading shows, the change below which its trend is `STEADY`, and the width of its sensor's noise."""

    source: Callable[[Drives], Any]
    band: float
    noise: float = 0.0


def _at_least(value: Any, low: float) -> Any:
    return np.maximum(value, low) if isinstance(value, np.ndarray) else max(value, low)


def _at_most(value: Any, high: float) -> Any:
    return np.minimum(value, high) if isinstance(value, np.ndarray) else min(value, high)


def _between(low: float, value: Any, high: float) -> Any:
    return (low < value) & (value < high)


def _volts(d: Drives) -> Any:
    return 580.0 + 1.4 * d.charge_pct - 0.12 * d.motor_kw


# Renewed at every tick: what moves as the vehicle moves.
FAST: Final[dict[str, Signal]] = {
    "motion.wheel_speed_average_kmh": Signal(lambda d: d.speed_mps * 3.6, 0.5),
    "motion.tachograph_speed_kmh": Signal(lambda d: d.speed_mps * 3.586, 0.5),
    "motion.longitudinal_acceleration_mps2": Signal(lambda d: d.acceleration_mps2, 0.1, noise=0.06),
    "motion.lateral_acceleration_mps2": Signal(
        lambda d: d.speed_mps * d.route.yaw_rate_dps * 0.01745, 0.1, noise=0.06
    ),
    "motion.yaw_rate_dps": Signal(lambda d: d.route.yaw_rate_dps, 0.2, noise=0.05),
    "motion.steering_wheel_angle_deg": Signal(
        lambda d: d.route.yaw_rate_dps / _at_least(d.speed_mps, 1.0) * 110.0, 2.0, noise=0.8
    ),
    "motion.accelerator_pedal_position_pct": Signal(lambda d: d.pedal_pct, 2.0),
    "motion.brake_pedal_position_pct": Signal(lambda d: d.brake_pct, 2.0),
    "combustion.engine_speed_rpm": Signal(lambda d: d.engine_rpm, 15.0),
    "combustion.engine_torque_pct": Signal(lambda d: d.torque_pct, 2.0),
    "combustion.engine_load_pct": Signal(lambda d: d.torque_pct * 0.94 + 3.0, 2.0),
    "combustion.oil_pressure_kpa": Signal(lambda d: 170.0 + d.engine_rpm * 0.2 - d.oil_c * 0.5, 8.0),
    "combustion.intake_manifold_pressure_kpa": Signal(lambda d: 101.0 + d.torque_pct * 1.9, 8.0),
    "combustion.intake_air_temperature_c": Signal(lambda d: d.ambient_c + 9.0 + d.torque_pct * 0.08, 0.5),
    "combustion.fuel_rate_lph": Signal(lambda d: d.fuel_lph, 1.0),
    "combustion.exhaust_gas_temperature_c": Signal(lambda d: d.exhaust_c, 2.0),
    "drivetrain.retarder_torque_pct": Signal(lambda d: d.retarder_pct, 2.0),
    "body.supply_voltage_v": Signal(lambda d: 28.2 - d.torque_pct * 0.003, 0.2, noise=0.2),
    "body.supply_current_a": Signal(lambda d: 24.0 + d.brake_pct * 0.2, 4.0, noise=6.0),
    "body.service_brake_pressure_front_kpa": Signal(lambda d: 870.0 - d.brake_pct * 1.2, 8.0),
    "body.service_brake_pressure_rear_kpa": Signal(lambda d: 862.0 - d.brake_pct * 1.3, 8.0),
    "traction.state_of_charge_pct": Signal(lambda d: d.charge_pct, 0.2),
    "traction.pack_voltage_v": Signal(_volts, 2.0),
    "traction.pack_current_a": Signal(lambda d: d.motor_kw * 1e3 / _volts(d), 5.0),
    "traction.pack_power_kw": Signal(lambda d: d.motor_kw, 2.0),
    "traction.cell_voltage_min_v": Signal(lambda d: _volts(d) / 180.0 - 0.02, 0.1),
    "traction.cell_voltage_max_v": Signal(lambda d: _volts(d) / 180.0 + 0.02, 0.1),
    "traction.motor_speed_rpm": Signal(lambda d: d.engine_rpm * 2.4 * (d.gear > 0), 30.0),
    "traction.motor_torque_nm": Signal(
        lambda d: d.motor_kw * 9_549.0 / _at_least(d.engine_rpm * 2.4, 500.0), 20.0
    ),
}

# Renewed in turn, a few at a tick: what changes over minutes.
SLOW: Final[dict[str, Signal]] = {
    "combustion.coolant_temperature_c": Signal(lambda d: d.coolant_c, 0.3),
    "combustion.oil_temperature_c": Signal(lambda d: d.oil_c, 0.3),
    "combustion.fuel_level_primary_pct": Signal(lambda d: d.fuel_pct, 1.0),
    "combustion.fuel_level_secondary_pct": Signal(lambda d: _at_most(d.fuel_pct * 1.02, 100.0), 1.0),
    "combustion.reductant_level_pct": Signal(lambda d: d.reductant_pct, 1.0),
    "combustion.particulate_filter_soot_pct": Signal(lambda d: d.soot_pct, 1.0),
    "drivetrain.transmission_oil_temperature_c": Signal(lambda d: d.gearbox_c, 0.3),
    "body.ambient_temperature_c": Signal(lambda d: d.ambient_c, 0.3),
    "body.cabin_temperature_c": Signal(lambda d: 20.5 + (d.coolant_c - 80.0) * 0.05, 0.3),
    "traction.pack_temperature_average_c": Signal(lambda d: d.pack_c, 0.3),
    "traction.pack_temperature_max_c": Signal(lambda d: d.pack_c + 2.5, 0.3),
    "traction.pack_temperature_min_c": Signal(lambda d: d.pack_c - 2.0, 0.3),
    "traction.motor_temperature_c": Signal(lambda d: d.pack_c + 18.0 + abs(d.motor_kw) * 0.1, 0.3),
    "traction.inverter_temperature_c": Signal(lambda d: d.pack_c + 12.0 + abs(d.motor_kw) * 0.1, 0.3),
}

COUNTERS: Final[dict[str, Callable[[Drives], Any]]] = {
    "motion.odometer_m": lambda d: d.odometer_m,
    "motion.trip_distance_m": lambda d: d.trip_m,
    "combustion.total_fuel_used_ml": lambda d: d.used_ml,
    "combustion.engine_running_time_s": lambda d: d.running_s,
    "combustion.idle_time_s": lambda d: d.idle_s,
    "traction.energy_used_wh": lambda d: d.used_wh,
    "traction.energy_recuperated_wh": lambda d: d.recuperated_wh,
    "traction.estimated_range_m": lambda d: _at_least(d.charge_pct, 0.0) * PACK_WH / MOTOR_KW,
    "body.distance_to_service_m": lambda d: 60_000_000 - d.odometer_m % 60_000_000,
}

FLAGS: Final[dict[str, Callable[[Drives], Any]]] = {
    "motion.parking_brake_engaged": lambda d: d.standing_s > 20.0,
    "motion.cruise_control_active": lambda d: (d.speed_mps > 19.0) & (abs(d.acceleration_mps2) < 0.12),
    "motion.anti_lock_braking_engaged": lambda d: (d.acceleration_mps2 < -2.1) & (d.ambient_c < 0.0),
    "body.driver_belt_fastened": lambda d: (d.speed_mps > 0.0) | (d.standing_s < 45.0),
    "body.driver_door_open": lambda d: _between(60.0, d.standing_s, 90.0),
    "body.hazard_lights_on": lambda d: d.standing_s > 120.0,
    "drivetrain.power_takeoff_engaged": lambda d: _between(95.0, d.standing_s, 120.0),
    "body.low_beam_on": lambda d: d.ambient_c < 10.0,
    "body.rain_detected": lambda d: d.soot_pct % 20.0 < 3.0,
    "body.wipers_running": lambda d: d.soot_pct % 20.0 < 3.0,
}


# No two wheels are quite alike: a factor of the tyres' warmth, and one of these offsets.
TYRE_WARMTH: Final = 1.0
TYRE_WARMTH_OFFSETS: Final = tuple(k * 0.5 - 3.0 for k in range(13))
TYRE_PRESSURE: Final = 2.2
TYRE_PRESSURE_OFFSETS: Final = tuple(k * 4.0 + 756.0 for k in range(13))
