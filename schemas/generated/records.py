"""Typed records. Made from current_status.proto by `python -m schemas.generate`; do not edit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Float64 = Annotated[float, msgspec.Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)]
Float32 = Annotated[float, msgspec.Meta(ge=-3.4028234663852886e38, le=3.4028234663852886e38)]
UInt64 = Annotated[int, msgspec.Meta(ge=0, le=9223372036854775807)]
UInt32 = Annotated[int, msgspec.Meta(ge=0, le=4294967295)]
Int32 = Annotated[int, msgspec.Meta(ge=-2147483648, le=2147483647)]

Quality = Literal["VALID", "STALE", "ESTIMATED", "OUT_OF_RANGE", "SENSOR_FAULT"]
Trend = Literal["STEADY", "RISING", "FALLING"]
Origin = Literal["POWERTRAIN_BUS", "CHASSIS_BUS", "BODY_BUS", "TELEMATICS_UNIT", "TRAILER_BUS"]
Cause = Literal["PERIODIC", "IGNITION_ON", "IGNITION_OFF", "LAMP_CHANGE", "RECONNECTED"]
LampKind = Literal["LAMP_UNKNOWN", "ENGINE_FAULT", "ENGINE_COOLANT_HOT", "ENGINE_COOLANT_LOW", "ENGINE_OIL_PRESSURE_LOW", "ENGINE_OIL_LEVEL_LOW", "ENGINE_EMISSION_FAULT", "ENGINE_DERATED", "PARTICULATE_FILTER_FULL", "REDUCTANT_LOW", "REDUCTANT_QUALITY_BAD", "FUEL_LOW", "FUEL_FILTER_CLOGGED", "AIR_FILTER_CLOGGED", "WATER_IN_FUEL", "PREHEATING_ACTIVE", "SUPPLY_CHARGING_FAULT", "SUPPLY_VOLTAGE_LOW", "HIGH_VOLTAGE_FAULT", "HIGH_VOLTAGE_HOT", "HIGH_VOLTAGE_ISOLATION_FAULT", "TRACTION_POWER_LIMITED", "CHARGE_LOW", "CHARGING_FAULT", "SERVICE_BRAKE_FAULT", "BRAKE_PRESSURE_LOW", "BRAKE_LINING_WORN", "ANTI_LOCK_FAULT", "TRAILER_ANTI_LOCK_FAULT", "STABILITY_CONTROL_FAULT", "TRACTION_CONTROL_FAULT", "PARKING_BRAKE_SET", "RETARDER_HOT", "STEERING_FAULT", "STEERING_FLUID_LOW", "TRANSMISSION_HOT", "TRANSMISSION_FAULT", "CLUTCH_WORN", "CLUTCH_HOT", "AXLE_LOCK_ENGAGED", "AIR_SUSPENSION_FAULT", "SUSPENSION_NOT_LEVEL", "TYRE_PRESSURE_LOW", "AIRBAG_FAULT", "SEAT_BELT_OPEN", "HEAD_LAMP_FAULT", "BRAKE_LAMP_FAULT", "INDICATOR_FAULT", "TRAILER_LAMP_FAULT", "WASHER_FLUID_LOW", "SERVICE_DUE", "LANE_KEEPING_FAULT", "EMERGENCY_BRAKING_FAULT", "ADAPTIVE_CRUISE_FAULT", "BLIND_SPOT_FAULT", "TACHOGRAPH_FAULT", "DOOR_OPEN", "CAB_UNLOCKED", "TAIL_LIFT_OUT", "POWER_TAKEOFF_ON", "HAZARD_LIGHTS_ON"]
LampState = Literal["LAMP_OFF", "LAMP_WHITE", "LAMP_YELLOW", "LAMP_RED", "LAMP_UNAVAILABLE"]


class Header(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    vehicle_id: str = ""
    schema_version: UInt32 = 0
    sequence_number: UInt64 = 0
    sampled_at_ms: UInt64 = 0
    cause: Cause = "PERIODIC"
    trip_id: str = ""
    software_release: str = ""
    epoch: UInt32 = 0


class Position(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    latitude_deg: Float64 = msgspec.field(default_factory=float)
    longitude_deg: Float64 = msgspec.field(default_factory=float)
    altitude_m: Float32 = msgspec.field(default_factory=float)
    heading_deg: Float32 = msgspec.field(default_factory=float)
    ground_speed_kmh: Float32 = msgspec.field(default_factory=float)
    horizontal_accuracy_m: Float32 = msgspec.field(default_factory=float)
    satellites_used: UInt32 = 0
    fix_time_ms: UInt64 = 0


class Reading(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    value: Float32 = msgspec.field(default_factory=float)
    age_cs: UInt32 = 0
    quality: Quality = "VALID"
    origin: Origin = "POWERTRAIN_BUS"
    trend: Trend = "STEADY"


class Flag(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    active: Any = False
    age_cs: UInt32 = 0
    quality: Quality = "VALID"
    origin: Origin = "POWERTRAIN_BUS"

    def __post_init__(self) -> None:
        if type(self.active) is not bool:
            raise ValueError("Expected `bool`")


class Counter(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    value: UInt64 = 0
    age_cs: UInt32 = 0
    quality: Quality = "VALID"
    origin: Origin = "POWERTRAIN_BUS"


class Motion(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    wheel_speed_average_kmh: Reading | None = None
    tachograph_speed_kmh: Reading | None = None
    longitudinal_acceleration_mps2: Reading | None = None
    lateral_acceleration_mps2: Reading | None = None
    yaw_rate_dps: Reading | None = None
    steering_wheel_angle_deg: Reading | None = None
    accelerator_pedal_position_pct: Reading | None = None
    brake_pedal_position_pct: Reading | None = None
    parking_brake_engaged: Flag | None = None
    cruise_control_active: Flag | None = None
    anti_lock_braking_engaged: Flag | None = None
    traction_control_engaged: Flag | None = None
    stability_control_engaged: Flag | None = None
    odometer_m: Counter | None = None
    trip_distance_m: Counter | None = None


class Combustion(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    engine_speed_rpm: Reading | None = None
    engine_torque_pct: Reading | None = None
    engine_load_pct: Reading | None = None
    coolant_temperature_c: Reading | None = None
    oil_temperature_c: Reading | None = None
    oil_pressure_kpa: Reading | None = None
    intake_air_temperature_c: Reading | None = None
    intake_manifold_pressure_kpa: Reading | None = None
    fuel_rate_lph: Reading | None = None
    fuel_level_primary_pct: Reading | None = None
    fuel_level_secondary_pct: Reading | None = None
    reductant_level_pct: Reading | None = None
    particulate_filter_soot_pct: Reading | None = None
    exhaust_gas_temperature_c: Reading | None = None
    total_fuel_used_ml: Counter | None = None
    engine_running_time_s: Counter | None = None
    idle_time_s: Counter | None = None


class Traction(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    state_of_charge_pct: Reading | None = None
    state_of_health_pct: Reading | None = None
    pack_voltage_v: Reading | None = None
    pack_current_a: Reading | None = None
    pack_power_kw: Reading | None = None
    pack_temperature_average_c: Reading | None = None
    pack_temperature_max_c: Reading | None = None
    pack_temperature_min_c: Reading | None = None
    cell_voltage_min_v: Reading | None = None
    cell_voltage_max_v: Reading | None = None
    motor_speed_rpm: Reading | None = None
    motor_torque_nm: Reading | None = None
    motor_temperature_c: Reading | None = None
    inverter_temperature_c: Reading | None = None
    charging_power_kw: Reading | None = None
    charging_cable_connected: Flag | None = None
    charging_active: Flag | None = None
    energy_used_wh: Counter | None = None
    energy_recuperated_wh: Counter | None = None
    estimated_range_m: Counter | None = None


class Drivetrain(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    transmission_oil_temperature_c: Reading | None = None
    current_gear: Int32 = 0
    selected_gear: Int32 = 0
    clutch_wear_pct: Reading | None = None
    retarder_torque_pct: Reading | None = None
    power_takeoff_engaged: Flag | None = None


class Wheel(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    wheel_number: UInt32 = 0
    tyre_pressure_kpa: Reading | None = None
    tyre_temperature_c: Reading | None = None
    brake_lining_remaining_pct: Reading | None = None


class Axle(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    axle_number: UInt32 = 0
    axle_load_kg: Reading | None = None
    wheels: list[Wheel] = msgspec.field(default_factory=list)


class Trailer(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    trailer_number: UInt32 = 0
    trailer_id: str = ""
    electrically_connected: Flag | None = None
    cargo_temperature_c: Reading | None = None
    axles: list[Axle] = msgspec.field(default_factory=list)


class Body(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    ambient_temperature_c: Reading | None = None
    cabin_temperature_c: Reading | None = None
    supply_voltage_v: Reading | None = None
    supply_current_a: Reading | None = None
    service_brake_pressure_front_kpa: Reading | None = None
    service_brake_pressure_rear_kpa: Reading | None = None
    washer_fluid_level_pct: Reading | None = None
    wipers_running: Flag | None = None
    low_beam_on: Flag | None = None
    high_beam_on: Flag | None = None
    hazard_lights_on: Flag | None = None
    rain_detected: Flag | None = None
    driver_door_open: Flag | None = None
    passenger_door_open: Flag | None = None
    cargo_door_open: Flag | None = None
    driver_belt_fastened: Flag | None = None
    distance_to_service_m: Counter | None = None


class Crew(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    driver_card_id: str = ""
    activity: UInt32 = 0
    continuous_driving_s: UInt32 = 0


class Lamp(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    lamp: LampKind = "LAMP_UNKNOWN"
    state: LampState = "LAMP_OFF"
    activations: UInt32 = 0


class Connectivity(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    operator_code: str = ""
    radio_technology: UInt32 = 0
    rsrp_dbm: Int32 = 0
    rsrq_db: Int32 = 0
    sinr_db: Int32 = 0
    cell_id: UInt64 = 0
    queued_messages: UInt32 = 0


class Document(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    header: Header | None = None
    position: Position | None = None
    motion: Motion | None = None
    combustion: Combustion | None = None
    traction: Traction | None = None
    drivetrain: Drivetrain | None = None
    axles: list[Axle] = msgspec.field(default_factory=list)
    trailers: list[Trailer] = msgspec.field(default_factory=list)
    body: Body | None = None
    crew: list[Crew] = msgspec.field(default_factory=list)
    lamps: list[Lamp] = msgspec.field(default_factory=list)
    connectivity: Connectivity | None = None
