# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Quality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALID: _ClassVar[Quality]
    STALE: _ClassVar[Quality]
    ESTIMATED: _ClassVar[Quality]
    OUT_OF_RANGE: _ClassVar[Quality]
    SENSOR_FAULT: _ClassVar[Quality]

class Trend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEADY: _ClassVar[Trend]
    RISING: _ClassVar[Trend]
    FALLING: _ClassVar[Trend]

class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POWERTRAIN_BUS: _ClassVar[Origin]
    CHASSIS_BUS: _ClassVar[Origin]
    BODY_BUS: _ClassVar[Origin]
    TELEMATICS_UNIT: _ClassVar[Origin]
    TRAILER_BUS: _ClassVar[Origin]

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERIODIC: _ClassVar[Cause]
    IGNITION_ON: _ClassVar[Cause]
    IGNITION_OFF: _ClassVar[Cause]
    LAMP_CHANGE: _ClassVar[Cause]
    RECONNECTED: _ClassVar[Cause]

class LampKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAMP_UNKNOWN: _ClassVar[LampKind]
    ENGINE_FAULT: _ClassVar[LampKind]
    ENGINE_COOLANT_HOT: _ClassVar[LampKind]
    ENGINE_COOLANT_LOW: _ClassVar[LampKind]
    ENGINE_OIL_PRESSURE_LOW: _ClassVar[LampKind]
    ENGINE_OIL_LEVEL_LOW: _ClassVar[LampKind]
    ENGINE_EMISSION_FAULT: _ClassVar[LampKind]
    ENGINE_DERATED: _ClassVar[LampKind]
    PARTICULATE_FILTER_FULL: _ClassVar[LampKind]
    REDUCTANT_LOW: _ClassVar[LampKind]
    REDUCTANT_QUALITY_BAD: _ClassVar[LampKind]
    FUEL_LOW: _ClassVar[LampKind]
    FUEL_FILTER_CLOGGED: _ClassVar[LampKind]
    AIR_FILTER_CLOGGED: _ClassVar[LampKind]
    WATER_IN_FUEL: _ClassVar[LampKind]
    PREHEATING_ACTIVE: _ClassVar[LampKind]
    SUPPLY_CHARGING_FAULT: _ClassVar[LampKind]
    SUPPLY_VOLTAGE_LOW: _ClassVar[LampKind]
    HIGH_VOLTAGE_FAULT: _ClassVar[LampKind]
    HIGH_VOLTAGE_HOT: _ClassVar[LampKind]
    HIGH_VOLTAGE_ISOLATION_FAULT: _ClassVar[LampKind]
    TRACTION_POWER_LIMITED: _ClassVar[LampKind]
    CHARGE_LOW: _ClassVar[LampKind]
    CHARGING_FAULT: _ClassVar[LampKind]
    SERVICE_BRAKE_FAULT: _ClassVar[LampKind]
    BRAKE_PRESSURE_LOW: _ClassVar[LampKind]
    BRAKE_LINING_WORN: _ClassVar[LampKind]
    ANTI_LOCK_FAULT: _ClassVar[LampKind]
    TRAILER_ANTI_LOCK_FAULT: _ClassVar[LampKind]
    STABILITY_CONTROL_FAULT: _ClassVar[LampKind]
    TRACTION_CONTROL_FAULT: _ClassVar[LampKind]
    PARKING_BRAKE_SET: _ClassVar[LampKind]
    RETARDER_HOT: _ClassVar[LampKind]
    STEERING_FAULT: _ClassVar[LampKind]
    STEERING_FLUID_LOW: _ClassVar[LampKind]
    TRANSMISSION_HOT: _ClassVar[LampKind]
    TRANSMISSION_FAULT: _ClassVar[LampKind]
    CLUTCH_WORN: _ClassVar[LampKind]
    CLUTCH_HOT: _ClassVar[LampKind]
    AXLE_LOCK_ENGAGED: _ClassVar[LampKind]
    AIR_SUSPENSION_FAULT: _ClassVar[LampKind]
    SUSPENSION_NOT_LEVEL: _ClassVar[LampKind]
    TYRE_PRESSURE_LOW: _ClassVar[LampKind]
    AIRBAG_FAULT: _ClassVar[LampKind]
    SEAT_BELT_OPEN: _ClassVar[LampKind]
    HEAD_LAMP_FAULT: _ClassVar[LampKind]
    BRAKE_LAMP_FAULT: _ClassVar[LampKind]
    INDICATOR_FAULT: _ClassVar[LampKind]
    TRAILER_LAMP_FAULT: _ClassVar[LampKind]
    WASHER_FLUID_LOW: _ClassVar[LampKind]
    SERVICE_DUE: _ClassVar[LampKind]
    LANE_KEEPING_FAULT: _ClassVar[LampKind]
    EMERGENCY_BRAKING_FAULT: _ClassVar[LampKind]
    ADAPTIVE_CRUISE_FAULT: _ClassVar[LampKind]
    BLIND_SPOT_FAULT: _ClassVar[LampKind]
    TACHOGRAPH_FAULT: _ClassVar[LampKind]
    DOOR_OPEN: _ClassVar[LampKind]
    CAB_UNLOCKED: _ClassVar[LampKind]
    TAIL_LIFT_OUT: _ClassVar[LampKind]
    POWER_TAKEOFF_ON: _ClassVar[LampKind]
    HAZARD_LIGHTS_ON: _ClassVar[LampKind]

class LampState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAMP_OFF: _ClassVar[LampState]
    LAMP_WHITE: _ClassVar[LampState]
    LAMP_YELLOW: _ClassVar[LampState]
    LAMP_RED: _ClassVar[LampState]
    LAMP_UNAVAILABLE: _ClassVar[LampState]
VALID: Quality
STALE: Quality
ESTIMATED: Quality
OUT_OF_RANGE: Quality
SENSOR_FAULT: Quality
STEADY: Trend
RISING: Trend
FALLING: Trend
POWERTRAIN_BUS: Origin
CHASSIS_BUS: Origin
BODY_BUS: Origin
TELEMATICS_UNIT: Origin
TRAILER_BUS: Origin
PERIODIC: Cause
IGNITION_ON: Cause
IGNITION_OFF: Cause
LAMP_CHANGE: Cause
RECONNECTED: Cause
LAMP_UNKNOWN: LampKind
ENGINE_FAULT: LampKind
ENGINE_COOLANT_HOT: LampKind
ENGINE_COOLANT_LOW: LampKind
ENGINE_OIL_PRESSURE_LOW: LampKind
ENGINE_OIL_LEVEL_LOW: LampKind
ENGINE_EMISSION_FAULT: LampKind
ENGINE_DERATED: LampKind
PARTICULATE_FILTER_FULL: LampKind
REDUCTANT_LOW: LampKind
REDUCTANT_QUALITY_BAD: LampKind
FUEL_LOW: LampKind
FUEL_FILTER_CLOGGED: LampKind
AIR_FILTER_CLOGGED: LampKind
WATER_IN_FUEL: LampKind
PREHEATING_ACTIVE: LampKind
SUPPLY_CHARGING_FAULT: LampKind
SUPPLY_VOLTAGE_LOW: LampKind
HIGH_VOLTAGE_FAULT: LampKind
HIGH_VOLTAGE_HOT: LampKind
HIGH_VOLTAGE_ISOLATION_FAULT: LampKind
TRACTION_POWER_LIMITED: LampKind
CHARGE_LOW: LampKind
CHARGING_FAULT: LampKind
SERVICE_BRAKE_FAULT: LampKind
BRAKE_PRESSURE_LOW: LampKind
BRAKE_LINING_WORN: LampKind
ANTI_LOCK_FAULT: LampKind
TRAILER_ANTI_LOCK_FAULT: LampKind
STABILITY_CONTROL_FAULT: LampKind
TRACTION_CONTROL_FAULT: LampKind
PARKING_BRAKE_SET: LampKind
RETARDER_HOT: LampKind
STEERING_FAULT: LampKind
STEERING_FLUID_LOW: LampKind
TRANSMISSION_HOT: LampKind
TRANSMISSION_FAULT: LampKind
CLUTCH_WORN: LampKind
CLUTCH_HOT: LampKind
AXLE_LOCK_ENGAGED: LampKind
AIR_SUSPENSION_FAULT: LampKind
SUSPENSION_NOT_LEVEL: LampKind
TYRE_PRESSURE_LOW: LampKind
AIRBAG_FAULT: LampKind
SEAT_BELT_OPEN: LampKind
HEAD_LAMP_FAULT: LampKind
BRAKE_LAMP_FAULT: LampKind
INDICATOR_FAULT: LampKind
TRAILER_LAMP_FAULT: LampKind
WASHER_FLUID_LOW: LampKind
SERVICE_DUE: LampKind
LANE_KEEPING_FAULT: LampKind
EMERGENCY_BRAKING_FAULT: LampKind
ADAPTIVE_CRUISE_FAULT: LampKind
BLIND_SPOT_FAULT: LampKind
TACHOGRAPH_FAULT: LampKind
DOOR_OPEN: LampKind
CAB_UNLOCKED: LampKind
TAIL_LIFT_OUT: LampKind
POWER_TAKEOFF_ON: LampKind
HAZARD_LIGHTS_ON: LampKind
LAMP_OFF: LampState
LAMP_WHITE: LampState
LAMP_YELLOW: LampState
LAMP_RED: LampState
LAMP_UNAVAILABLE: LampState

class Reading(_message.Message):
    __slots__ = ("value", "age_cs", "quality", "origin", "trend")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    AGE_CS_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    TREND_FIELD_NUMBER: _ClassVar[int]
    value: float
    age_cs: int
    quality: Quality
    origin: Origin
    trend: Trend
    def __init__(self, value: _Optional[float] = ..., age_cs: _Optional[int] = ..., quality: _Optional[_Union[Quality, str]] = ..., origin: _Optional[_Union[Origin, str]] = ..., trend: _Optional[_Union[Trend, str]] = ...) -> None: ...

class Counter(_message.Message):
    __slots__ = ("value", "age_cs", "quality", "origin")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    AGE_CS_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    value: int
    age_cs: int
    quality: Quality
    origin: Origin
    def __init__(self, value: _Optional[int] = ..., age_cs: _Optional[int] = ..., quality: _Optional[_Union[Quality, str]] = ..., origin: _Optional[_Union[Origin, str]] = ...) -> None: ...

class Flag(_message.Message):
    __slots__ = ("active", "age_cs", "quality", "origin")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    AGE_CS_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    active: bool
    age_cs: int
    quality: Quality
    origin: Origin
    def __init__(self, active: _Optional[bool] = ..., age_cs: _Optional[int] = ..., quality: _Optional[_Union[Quality, str]] = ..., origin: _Optional[_Union[Origin, str]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("vehicle_id", "schema_version", "sequence_number", "sampled_at_ms", "cause", "trip_id", "software_release", "epoch")
    VEHICLE_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    TRIP_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_RELEASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    vehicle_id: str
    schema_version: int
    sequence_number: int
    sampled_at_ms: int
    cause: Cause
    trip_id: str
    software_release: str
    epoch: int
    def __init__(self, vehicle_id: _Optional[str] = ..., schema_version: _Optional[int] = ..., sequence_number: _Optional[int] = ..., sampled_at_ms: _Optional[int] = ..., cause: _Optional[_Union[Cause, str]] = ..., trip_id: _Optional[str] = ..., software_release: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("latitude_deg", "longitude_deg", "altitude_m", "heading_deg", "ground_speed_kmh", "horizontal_accuracy_m", "satellites_used", "fix_time_ms")
    LATITUDE_DEG_FIELD_NUMBER: _ClassVar[int]
    LONGITUDE_DEG_FIELD_NUMBER: _ClassVar[int]
    ALTITUDE_M_FIELD_NUMBER: _ClassVar[int]
    HEADING_DEG_FIELD_NUMBER: _ClassVar[int]
    GROUND_SPEED_KMH_FIELD_NUMBER: _ClassVar[int]
    HORIZONTAL_ACCURACY_M_FIELD_NUMBER: _ClassVar[int]
    SATELLITES_USED_FIELD_NUMBER: _ClassVar[int]
    FIX_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    heading_deg: float
    ground_speed_kmh: float
    horizontal_accuracy_m: float
    satellites_used: int
    fix_time_ms: int
    def __init__(self, latitude_deg: _Optional[float] = ..., longitude_deg: _Optional[float] = ..., altitude_m: _Optional[float] = ..., heading_deg: _Optional[float] = ..., ground_speed_kmh: _Optional[float] = ..., horizontal_accuracy_m: _Optional[float] = ..., satellites_used: _Optional[int] = ..., fix_time_ms: _Optional[int] = ...) -> None: ...

class Motion(_message.Message):
    __slots__ = ("wheel_speed_average_kmh", "tachograph_speed_kmh", "longitudinal_acceleration_mps2", "lateral_acceleration_mps2", "yaw_rate_dps", "steering_wheel_angle_deg", "accelerator_pedal_position_pct", "brake_pedal_position_pct", "parking_brake_engaged", "cruise_control_active", "anti_lock_braking_engaged", "traction_control_engaged", "stability_control_engaged", "odometer_m", "trip_distance_m")
    WHEEL_SPEED_AVERAGE_KMH_FIELD_NUMBER: _ClassVar[int]
    TACHOGRAPH_SPEED_KMH_FIELD_NUMBER: _ClassVar[int]
    LONGITUDINAL_ACCELERATION_MPS2_FIELD_NUMBER: _ClassVar[int]
    LATERAL_ACCELERATION_MPS2_FIELD_NUMBER: _ClassVar[int]
    YAW_RATE_DPS_FIELD_NUMBER: _ClassVar[int]
    STEERING_WHEEL_ANGLE_DEG_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_PEDAL_POSITION_PCT_FIELD_NUMBER: _ClassVar[int]
    BRAKE_PEDAL_POSITION_PCT_FIELD_NUMBER: _ClassVar[int]
    PARKING_BRAKE_ENGAGED_FIELD_NUMBER: _ClassVar[int]
    CRUISE_CONTROL_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ANTI_LOCK_BRAKING_ENGAGED_FIELD_NUMBER: _ClassVar[int]
    TRACTION_CONTROL_ENGAGED_FIELD_NUMBER: _ClassVar[int]
    STABILITY_CONTROL_ENGAGED_FIELD_NUMBER: _ClassVar[int]
    ODOMETER_M_FIELD_NUMBER: _ClassVar[int]
    TRIP_DISTANCE_M_FIELD_NUMBER: _ClassVar[int]
    wheel_speed_average_kmh: Reading
    tachograph_speed_kmh: Reading
    longitudinal_acceleration_mps2: Reading
    lateral_acceleration_mps2: Reading
    yaw_rate_dps: Reading
    steering_wheel_angle_deg: Reading
    accelerator_pedal_position_pct: Reading
    brake_pedal_position_pct: Reading
    parking_brake_engaged: Flag
    cruise_control_active: Flag
    anti_lock_braking_engaged: Flag
    traction_control_engaged: Flag
    stability_control_engaged: Flag
    odometer_m: Counter
    trip_distance_m: Counter
    def __init__(self, wheel_speed_average_kmh: _Optional[_Union[Reading, _Mapping]] = ..., tachograph_speed_kmh: _Optional[_Union[Reading, _Mapping]] = ..., longitudinal_acceleration_mps2: _Optional[_Union[Reading, _Mapping]] = ..., lateral_acceleration_mps2: _Optional[_Union[Reading, _Mapping]] = ..., yaw_rate_dps: _Optional[_Union[Reading, _Mapping]] = ..., steering_wheel_angle_deg: _Optional[_Union[Reading, _Mapping]] = ..., accelerator_pedal_position_pct: _Optional[_Union[Reading, _Mapping]] = ..., brake_pedal_position_pct: _Optional[_Union[Reading, _Mapping]] = ..., parking_brake_engaged: _Optional[_Union[Flag, _Mapping]] = ..., cruise_control_active: _Optional[_Union[Flag, _Mapping]] = ..., anti_lock_braking_engaged: _Optional[_Union[Flag, _Mapping]] = ..., traction_control_engaged: _Optional[_Union[Flag, _Mapping]] = ..., stability_control_engaged: _Optional[_Union[Flag, _Mapping]] = ..., odometer_m: _Optional[_Union[Counter, _Mapping]] = ..., trip_distance_m: _Optional[_Union[Counter, _Mapping]] = ...) -> None: ...

class Combustion(_message.Message):
    __slots__ = ("engine_speed_rpm", "engine_torque_pct", "engine_load_pct", "coolant_temperature_c", "oil_temperature_c", "oil_pressure_kpa", "intake_air_temperature_c", "intake_manifold_pressure_kpa", "fuel_rate_lph", "fuel_level_primary_pct", "fuel_level_secondary_pct", "reductant_level_pct", "particulate_filter_soot_pct", "exhaust_gas_temperature_c", "total_fuel_used_ml", "engine_running_time_s", "idle_time_s")
    ENGINE_SPEED_RPM_FIELD_NUMBER: _ClassVar[int]
    ENGINE_TORQUE_PCT_FIELD_NUMBER: _ClassVar[int]
    ENGINE_LOAD_PCT_FIELD_NUMBER: _ClassVar[int]
    COOLANT_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    OIL_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    OIL_PRESSURE_KPA_FIELD_NUMBER: _ClassVar[int]
    INTAKE_AIR_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    INTAKE_MANIFOLD_PRESSURE_KPA_FIELD_NUMBER: _ClassVar[int]
    FUEL_RATE_LPH_FIELD_NUMBER: _ClassVar[int]
    FUEL_LEVEL_PRIMARY_PCT_FIELD_NUMBER: _ClassVar[int]
    FUEL_LEVEL_SECONDARY_PCT_FIELD_NUMBER: _ClassVar[int]
    REDUCTANT_LEVEL_PCT_FIELD_NUMBER: _ClassVar[int]
    PARTICULATE_FILTER_SOOT_PCT_FIELD_NUMBER: _ClassVar[int]
    EXHAUST_GAS_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FUEL_USED_ML_FIELD_NUMBER: _ClassVar[int]
    ENGINE_RUNNING_TIME_S_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIME_S_FIELD_NUMBER: _ClassVar[int]
    engine_speed_rpm: Reading
    engine_torque_pct: Reading
    engine_load_pct: Reading
    coolant_temperature_c: Reading
    oil_temperature_c: Reading
    oil_pressure_kpa: Reading
    intake_air_temperature_c: Reading
    intake_manifold_pressure_kpa: Reading
    fuel_rate_lph: Reading
    fuel_level_primary_pct: Reading
    fuel_level_secondary_pct: Reading
    reductant_level_pct: Reading
    particulate_filter_soot_pct: Reading
    exhaust_gas_temperature_c: Reading
    total_fuel_used_ml: Counter
    engine_running_time_s: Counter
    idle_time_s: Counter
    def __init__(self, engine_speed_rpm: _Optional[_Union[Reading, _Mapping]] = ..., engine_torque_pct: _Optional[_Union[Reading, _Mapping]] = ..., engine_load_pct: _Optional[_Union[Reading, _Mapping]] = ..., coolant_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., oil_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., oil_pressure_kpa: _Optional[_Union[Reading, _Mapping]] = ..., intake_air_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., intake_manifold_pressure_kpa: _Optional[_Union[Reading, _Mapping]] = ..., fuel_rate_lph: _Optional[_Union[Reading, _Mapping]] = ..., fuel_level_primary_pct: _Optional[_Union[Reading, _Mapping]] = ..., fuel_level_secondary_pct: _Optional[_Union[Reading, _Mapping]] = ..., reductant_level_pct: _Optional[_Union[Reading, _Mapping]] = ..., particulate_filter_soot_pct: _Optional[_Union[Reading, _Mapping]] = ..., exhaust_gas_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., total_fuel_used_ml: _Optional[_Union[Counter, _Mapping]] = ..., engine_running_time_s: _Optional[_Union[Counter, _Mapping]] = ..., idle_time_s: _Optional[_Union[Counter, _Mapping]] = ...) -> None: ...

class Traction(_message.Message):
    __slots__ = ("state_of_charge_pct", "state_of_health_pct", "pack_voltage_v", "pack_current_a", "pack_power_kw", "pack_temperature_average_c", "pack_temperature_max_c", "pack_temperature_min_c", "cell_voltage_min_v", "cell_voltage_max_v", "motor_speed_rpm", "motor_torque_nm", "motor_temperature_c", "inverter_temperature_c", "charging_power_kw", "charging_cable_connected", "charging_active", "energy_used_wh", "energy_recuperated_wh", "estimated_range_m")
    STATE_OF_CHARGE_PCT_FIELD_NUMBER: _ClassVar[int]
    STATE_OF_HEALTH_PCT_FIELD_NUMBER: _ClassVar[int]
    PACK_VOLTAGE_V_FIELD_NUMBER: _ClassVar[int]
    PACK_CURRENT_A_FIELD_NUMBER: _ClassVar[int]
    PACK_POWER_KW_FIELD_NUMBER: _ClassVar[int]
    PACK_TEMPERATURE_AVERAGE_C_FIELD_NUMBER: _ClassVar[int]
    PACK_TEMPERATURE_MAX_C_FIELD_NUMBER: _ClassVar[int]
    PACK_TEMPERATURE_MIN_C_FIELD_NUMBER: _ClassVar[int]
    CELL_VOLTAGE_MIN_V_FIELD_NUMBER: _ClassVar[int]
    CELL_VOLTAGE_MAX_V_FIELD_NUMBER: _ClassVar[int]
    MOTOR_SPEED_RPM_FIELD_NUMBER: _ClassVar[int]
    MOTOR_TORQUE_NM_FIELD_NUMBER: _ClassVar[int]
    MOTOR_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    INVERTER_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    CHARGING_POWER_KW_FIELD_NUMBER: _ClassVar[int]
    CHARGING_CABLE_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    CHARGING_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ENERGY_USED_WH_FIELD_NUMBER: _ClassVar[int]
    ENERGY_RECUPERATED_WH_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_RANGE_M_FIELD_NUMBER: _ClassVar[int]
    state_of_charge_pct: Reading
    state_of_health_pct: Reading
    pack_voltage_v: Reading
    pack_current_a: Reading
    pack_power_kw: Reading
    pack_temperature_average_c: Reading
    pack_temperature_max_c: Reading
    pack_temperature_min_c: Reading
    cell_voltage_min_v: Reading
    cell_voltage_max_v: Reading
    motor_speed_rpm: Reading
    motor_torque_nm: Reading
    motor_temperature_c: Reading
    inverter_temperature_c: Reading
    charging_power_kw: Reading
    charging_cable_connected: Flag
    charging_active: Flag
    energy_used_wh: Counter
    energy_recuperated_wh: Counter
    estimated_range_m: Counter
    def __init__(self, state_of_charge_pct: _Optional[_Union[Reading, _Mapping]] = ..., state_of_health_pct: _Optional[_Union[Reading, _Mapping]] = ..., pack_voltage_v: _Optional[_Union[Reading, _Mapping]] = ..., pack_current_a: _Optional[_Union[Reading, _Mapping]] = ..., pack_power_kw: _Optional[_Union[Reading, _Mapping]] = ..., pack_temperature_average_c: _Optional[_Union[Reading, _Mapping]] = ..., pack_temperature_max_c: _Optional[_Union[Reading, _Mapping]] = ..., pack_temperature_min_c: _Optional[_Union[Reading, _Mapping]] = ..., cell_voltage_min_v: _Optional[_Union[Reading, _Mapping]] = ..., cell_voltage_max_v: _Optional[_Union[Reading, _Mapping]] = ..., motor_speed_rpm: _Optional[_Union[Reading, _Mapping]] = ..., motor_torque_nm: _Optional[_Union[Reading, _Mapping]] = ..., motor_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., inverter_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., charging_power_kw: _Optional[_Union[Reading, _Mapping]] = ..., charging_cable_connected: _Optional[_Union[Flag, _Mapping]] = ..., charging_active: _Optional[_Union[Flag, _Mapping]] = ..., energy_used_wh: _Optional[_Union[Counter, _Mapping]] = ..., energy_recuperated_wh: _Optional[_Union[Counter, _Mapping]] = ..., estimated_range_m: _Optional[_Union[Counter, _Mapping]] = ...) -> None: ...

class Drivetrain(_message.Message):
    __slots__ = ("transmission_oil_temperature_c", "current_gear", "selected_gear", "clutch_wear_pct", "retarder_torque_pct", "power_takeoff_engaged")
    TRANSMISSION_OIL_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    CURRENT_GEAR_FIELD_NUMBER: _ClassVar[int]
    SELECTED_GEAR_FIELD_NUMBER: _ClassVar[int]
    CLUTCH_WEAR_PCT_FIELD_NUMBER: _ClassVar[int]
    RETARDER_TORQUE_PCT_FIELD_NUMBER: _ClassVar[int]
    POWER_TAKEOFF_ENGAGED_FIELD_NUMBER: _ClassVar[int]
    transmission_oil_temperature_c: Reading
    current_gear: int
    selected_gear: int
    clutch_wear_pct: Reading
    retarder_torque_pct: Reading
    power_takeoff_engaged: Flag
    def __init__(self, transmission_oil_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., current_gear: _Optional[int] = ..., selected_gear: _Optional[int] = ..., clutch_wear_pct: _Optional[_Union[Reading, _Mapping]] = ..., retarder_torque_pct: _Optional[_Union[Reading, _Mapping]] = ..., power_takeoff_engaged: _Optional[_Union[Flag, _Mapping]] = ...) -> None: ...

class Axle(_message.Message):
    __slots__ = ("axle_number", "axle_load_kg", "wheels")
    AXLE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    AXLE_LOAD_KG_FIELD_NUMBER: _ClassVar[int]
    WHEELS_FIELD_NUMBER: _ClassVar[int]
    axle_number: int
    axle_load_kg: Reading
    wheels: _containers.RepeatedCompositeFieldContainer[Wheel]
    def __init__(self, axle_number: _Optional[int] = ..., axle_load_kg: _Optional[_Union[Reading, _Mapping]] = ..., wheels: _Optional[_Iterable[_Union[Wheel, _Mapping]]] = ...) -> None: ...

class Wheel(_message.Message):
    __slots__ = ("wheel_number", "tyre_pressure_kpa", "tyre_temperature_c", "brake_lining_remaining_pct")
    WHEEL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TYRE_PRESSURE_KPA_FIELD_NUMBER: _ClassVar[int]
    TYRE_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    BRAKE_LINING_REMAINING_PCT_FIELD_NUMBER: _ClassVar[int]
    wheel_number: int
    tyre_pressure_kpa: Reading
    tyre_temperature_c: Reading
    brake_lining_remaining_pct: Reading
    def __init__(self, wheel_number: _Optional[int] = ..., tyre_pressure_kpa: _Optional[_Union[Reading, _Mapping]] = ..., tyre_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., brake_lining_remaining_pct: _Optional[_Union[Reading, _Mapping]] = ...) -> None: ...

class Trailer(_message.Message):
    __slots__ = ("trailer_number", "trailer_id", "electrically_connected", "cargo_temperature_c", "axles")
    TRAILER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRAILER_ID_FIELD_NUMBER: _ClassVar[int]
    ELECTRICALLY_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    CARGO_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    AXLES_FIELD_NUMBER: _ClassVar[int]
    trailer_number: int
    trailer_id: str
    electrically_connected: Flag
    cargo_temperature_c: Reading
    axles: _containers.RepeatedCompositeFieldContainer[Axle]
    def __init__(self, trailer_number: _Optional[int] = ..., trailer_id: _Optional[str] = ..., electrically_connected: _Optional[_Union[Flag, _Mapping]] = ..., cargo_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., axles: _Optional[_Iterable[_Union[Axle, _Mapping]]] = ...) -> None: ...

class Body(_message.Message):
    __slots__ = ("ambient_temperature_c", "cabin_temperature_c", "supply_voltage_v", "supply_current_a", "service_brake_pressure_front_kpa", "service_brake_pressure_rear_kpa", "washer_fluid_level_pct", "wipers_running", "low_beam_on", "high_beam_on", "hazard_lights_on", "rain_detected", "driver_door_open", "passenger_door_open", "cargo_door_open", "driver_belt_fastened", "distance_to_service_m")
    AMBIENT_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    CABIN_TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    SUPPLY_VOLTAGE_V_FIELD_NUMBER: _ClassVar[int]
    SUPPLY_CURRENT_A_FIELD_NUMBER: _ClassVar[int]
    SERVICE_BRAKE_PRESSURE_FRONT_KPA_FIELD_NUMBER: _ClassVar[int]
    SERVICE_BRAKE_PRESSURE_REAR_KPA_FIELD_NUMBER: _ClassVar[int]
    WASHER_FLUID_LEVEL_PCT_FIELD_NUMBER: _ClassVar[int]
    WIPERS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    LOW_BEAM_ON_FIELD_NUMBER: _ClassVar[int]
    HIGH_BEAM_ON_FIELD_NUMBER: _ClassVar[int]
    HAZARD_LIGHTS_ON_FIELD_NUMBER: _ClassVar[int]
    RAIN_DETECTED_FIELD_NUMBER: _ClassVar[int]
    DRIVER_DOOR_OPEN_FIELD_NUMBER: _ClassVar[int]
    PASSENGER_DOOR_OPEN_FIELD_NUMBER: _ClassVar[int]
    CARGO_DOOR_OPEN_FIELD_NUMBER: _ClassVar[int]
    DRIVER_BELT_FASTENED_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_TO_SERVICE_M_FIELD_NUMBER: _ClassVar[int]
    ambient_temperature_c: Reading
    cabin_temperature_c: Reading
    supply_voltage_v: Reading
    supply_current_a: Reading
    service_brake_pressure_front_kpa: Reading
    service_brake_pressure_rear_kpa: Reading
    washer_fluid_level_pct: Reading
    wipers_running: Flag
    low_beam_on: Flag
    high_beam_on: Flag
    hazard_lights_on: Flag
    rain_detected: Flag
    driver_door_open: Flag
    passenger_door_open: Flag
    cargo_door_open: Flag
    driver_belt_fastened: Flag
    distance_to_service_m: Counter
    def __init__(self, ambient_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., cabin_temperature_c: _Optional[_Union[Reading, _Mapping]] = ..., supply_voltage_v: _Optional[_Union[Reading, _Mapping]] = ..., supply_current_a: _Optional[_Union[Reading, _Mapping]] = ..., service_brake_pressure_front_kpa: _Optional[_Union[Reading, _Mapping]] = ..., service_brake_pressure_rear_kpa: _Optional[_Union[Reading, _Mapping]] = ..., washer_fluid_level_pct: _Optional[_Union[Reading, _Mapping]] = ..., wipers_running: _Optional[_Union[Flag, _Mapping]] = ..., low_beam_on: _Optional[_Union[Flag, _Mapping]] = ..., high_beam_on: _Optional[_Union[Flag, _Mapping]] = ..., hazard_lights_on: _Optional[_Union[Flag, _Mapping]] = ..., rain_detected: _Optional[_Union[Flag, _Mapping]] = ..., driver_door_open: _Optional[_Union[Flag, _Mapping]] = ..., passenger_door_open: _Optional[_Union[Flag, _Mapping]] = ..., cargo_door_open: _Optional[_Union[Flag, _Mapping]] = ..., driver_belt_fastened: _Optional[_Union[Flag, _Mapping]] = ..., distance_to_service_m: _Optional[_Union[Counter, _Mapping]] = ...) -> None: ...

class Crew(_message.Message):
    __slots__ = ("driver_card_id", "activity", "continuous_driving_s")
    DRIVER_CARD_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    CONTINUOUS_DRIVING_S_FIELD_NUMBER: _ClassVar[int]
    driver_card_id: str
    activity: int
    continuous_driving_s: int
    def __init__(self, driver_card_id: _Optional[str] = ..., activity: _Optional[int] = ..., continuous_driving_s: _Optional[int] = ...) -> None: ...

class Lamp(_message.Message):
    __slots__ = ("lamp", "state", "activations")
    LAMP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ACTIVATIONS_FIELD_NUMBER: _ClassVar[int]
    lamp: LampKind
    state: LampState
    activations: int
    def __init__(self, lamp: _Optional[_Union[LampKind, str]] = ..., state: _Optional[_Union[LampState, str]] = ..., activations: _Optional[int] = ...) -> None: ...

class Connectivity(_message.Message):
    __slots__ = ("operator_code", "radio_technology", "rsrp_dbm", "rsrq_db", "sinr_db", "cell_id", "queued_messages")
    OPERATOR_CODE_FIELD_NUMBER: _ClassVar[int]
    RADIO_TECHNOLOGY_FIELD_NUMBER: _ClassVar[int]
    RSRP_DBM_FIELD_NUMBER: _ClassVar[int]
    RSRQ_DB_FIELD_NUMBER: _ClassVar[int]
    SINR_DB_FIELD_NUMBER: _ClassVar[int]
    CELL_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    operator_code: str
    radio_technology: int
    rsrp_dbm: int
    rsrq_db: int
    sinr_db: int
    cell_id: int
    queued_messages: int
    def __init__(self, operator_code: _Optional[str] = ..., radio_technology: _Optional[int] = ..., rsrp_dbm: _Optional[int] = ..., rsrq_db: _Optional[int] = ..., sinr_db: _Optional[int] = ..., cell_id: _Optional[int] = ..., queued_messages: _Optional[int] = ...) -> None: ...

class CurrentStatus(_message.Message):
    __slots__ = ("header", "position", "motion", "combustion", "traction", "drivetrain", "axles", "trailers", "body", "crew", "lamps", "connectivity")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MOTION_FIELD_NUMBER: _ClassVar[int]
    COMBUSTION_FIELD_NUMBER: _ClassVar[int]
    TRACTION_FIELD_NUMBER: _ClassVar[int]
    DRIVETRAIN_FIELD_NUMBER: _ClassVar[int]
    AXLES_FIELD_NUMBER: _ClassVar[int]
    TRAILERS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CREW_FIELD_NUMBER: _ClassVar[int]
    LAMPS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIVITY_FIELD_NUMBER: _ClassVar[int]
    header: Header
    position: Position
    motion: Motion
    combustion: Combustion
    traction: Traction
    drivetrain: Drivetrain
    axles: _containers.RepeatedCompositeFieldContainer[Axle]
    trailers: _containers.RepeatedCompositeFieldContainer[Trailer]
    body: Body
    crew: _containers.RepeatedCompositeFieldContainer[Crew]
    lamps: _containers.RepeatedCompositeFieldContainer[Lamp]
    connectivity: Connectivity
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., motion: _Optional[_Union[Motion, _Mapping]] = ..., combustion: _Optional[_Union[Combustion, _Mapping]] = ..., traction: _Optional[_Union[Traction, _Mapping]] = ..., drivetrain: _Optional[_Union[Drivetrain, _Mapping]] = ..., axles: _Optional[_Iterable[_Union[Axle, _Mapping]]] = ..., trailers: _Optional[_Iterable[_Union[Trailer, _Mapping]]] = ..., body: _Optional[_Union[Body, _Mapping]] = ..., crew: _Optional[_Iterable[_Union[Crew, _Mapping]]] = ..., lamps: _Optional[_Iterable[_Union[Lamp, _Mapping]]] = ..., connectivity: _Optional[_Union[Connectivity, _Mapping]] = ...) -> None: ...

class PeekedHeader(_message.Message):
    __slots__ = ("vehicle_id", "sequence_number", "sampled_at_ms", "epoch")
    VEHICLE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    vehicle_id: str
    sequence_number: int
    sampled_at_ms: int
    epoch: int
    def __init__(self, vehicle_id: _Optional[str] = ..., sequence_number: _Optional[int] = ..., sampled_at_ms: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class HeaderOnly(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: PeekedHeader
    def __init__(self, header: _Optional[_Union[PeekedHeader, _Mapping]] = ...) -> None: ...
