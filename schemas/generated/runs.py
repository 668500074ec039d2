"""Per-message functions. Made from current_status.proto by `python -m schemas.generate`; do not edit."""

from __future__ import annotations

from struct import Struct
from typing import Any

from schemas.scalars import TEXT, Names, Numbers, avro_string, json_number, json_string, varint, zigzag
from schemas.generated import records as r

F32 = Struct("<f").pack
F64 = Struct("<d").pack
ZIGZAG = tuple(zigzag(k) for k in range(128))
NAMES_Quality = Names(enumerate(('VALID', 'STALE', 'ESTIMATED', 'OUT_OF_RANGE', 'SENSOR_FAULT')))
NUMBER_Quality = Numbers((name, k) for k, name in NAMES_Quality.items())
AVRO_Quality = {name: zigzag(k) for name, k in NUMBER_Quality.items()}
NAMES_Trend = Names(enumerate(('STEADY', 'RISING', 'FALLING')))
NUMBER_Trend = Numbers((name, k) for k, name in NAMES_Trend.items())
AVRO_Trend = {name: zigzag(k) for name, k in NUMBER_Trend.items()}
NAMES_Origin = Names(enumerate(('POWERTRAIN_BUS', 'CHASSIS_BUS', 'BODY_BUS', 'TELEMATICS_UNIT', 'TRAILER_BUS')))
NUMBER_Origin = Numbers((name, k) for k, name in NAMES_Origin.items())
AVRO_Origin = {name: zigzag(k) for name, k in NUMBER_Origin.items()}
NAMES_Cause = Names(enumerate(('PERIODIC', 'IGNITION_ON', 'IGNITION_OFF', 'LAMP_CHANGE', 'RECONNECTED')))
NUMBER_Cause = Numbers((name, k) for k, name in NAMES_Cause.items())
AVRO_Cause = {name: zigzag(k) for name, k in NUMBER_Cause.items()}
NAMES_LampKind = Names(enumerate(('LAMP_UNKNOWN', 'ENGINE_FAULT', 'ENGINE_COOLANT_HOT', 'ENGINE_COOLANT_LOW', 'ENGINE_OIL_PRESSURE_LOW', 'ENGINE_OIL_LEVEL_LOW', 'ENGINE_EMISSION_FAULT', 'ENGINE_DERATED', 'PARTICULATE_FILTER_FULL', 'REDUCTANT_LOW', 'REDUCTANT_QUALITY_BAD', 'FUEL_LOW', 'FUEL_FILTER_CLOGGED', 'AIR_FILTER_CLOGGED', 'WATER_IN_FUEL', 'PREHEATING_ACTIVE', 'SUPPLY_CHARGING_FAULT', 'SUPPLY_VOLTAGE_LOW', 'HIGH_VOLTAGE_FAULT', 'HIGH_VOLTAGE_HOT', 'HIGH_VOLTAGE_ISOLATION_FAULT', 'TRACTION_POWER_LIMITED', 'CHARGE_LOW', 'CHARGING_FAULT', 'SERVICE_BRAKE_FAULT', 'BRAKE_PRESSURE_LOW', 'BRAKE_LINING_WORN', 'ANTI_LOCK_FAULT', 'TRAILER_ANTI_LOCK_FAULT', 'STABILITY_CONTROL_FAULT', 'TRACTION_CONTROL_FAULT', 'PARKING_BRAKE_SET', 'RETARDER_HOT', 'STEERING_FAULT', 'STEERING_FLUID_LOW', 'TRANSMISSION_HOT', 'TRANSMISSION_FAULT', 'CLUTCH_WORN', 'CLUTCH_HOT', 'AXLE_LOCK_ENGAGED', 'AIR_SUSPENSION_FAULT', 'SUSPENSION_NOT_LEVEL', 'TYRE_PRESSURE_LOW', 'AIRBAG_FAULT', 'SEAT_BELT_OPEN', 'HEAD_LAMP_FAULT', 'BRAKE_LAMP_FAULT', 'INDICATOR_FAULT', 'TRAILER_LAMP_FAULT', 'WASHER_FLUID_LOW', 'SERVICE_DUE', 'LANE_KEEPING_FAULT', 'EMERGENCY_BRAKING_FAULT', 'ADAPTIVE_CRUISE_FAULT', 'BLIND_SPOT_FAULT', 'TACHOGRAPH_FAULT', 'DOOR_OPEN', 'CAB_UNLOCKED', 'TAIL_LIFT_OUT', 'POWER_TAKEOFF_ON', 'HAZARD_LIGHTS_ON')))
NUMBER_LampKind = Numbers((name, k) for k, name in NAMES_LampKind.items())
AVRO_LampKind = {name: zigzag(k) for name, k in NUMBER_LampKind.items()}
NAMES_LampState = Names(enumerate(('LAMP_OFF', 'LAMP_WHITE', 'LAMP_YELLOW', 'LAMP_RED', 'LAMP_UNAVAILABLE')))
NUMBER_LampState = Numbers((name, k) for k, name in NAMES_LampState.items())
AVRO_LampState = {name: zigzag(k) for name, k in NUMBER_LampState.items()}


def json_header(o: Any) -> str:
    return f'"vehicleId":{json_string(o.vehicle_id)},"schemaVersion":{o.schema_version},"sequenceNumber":"{o.sequence_number}","sampledAtMs":"{o.sampled_at_ms}","cause":"{o.cause}","tripId":{json_string(o.trip_id)},"softwareRelease":{json_string(o.software_release)},"epoch":{o.epoch}'


def avro_header(o: Any) -> bytes:
    return avro_string(o.vehicle_id) + (ZIGZAG[o.schema_version] if o.schema_version < 128 else varint(o.schema_version << 1)) + varint(o.sequence_number << 1) + varint(o.sampled_at_ms << 1) + AVRO_Cause[o.cause] + avro_string(o.trip_id) + avro_string(o.software_release) + (ZIGZAG[o.epoch] if o.epoch < 128 else varint(o.epoch << 1))


def flat_header(o: Any) -> tuple[Any, ...]:
    return (o.sequence_number, o.sampled_at_ms, o.schema_version, o.epoch, NUMBER_Cause[o.cause], )


def to_protobuf_header(o: Any, m: Any) -> None:
    m.vehicle_id = o.vehicle_id
    m.schema_version = o.schema_version
    m.sequence_number = o.sequence_number
    m.sampled_at_ms = o.sampled_at_ms
    m.cause = NUMBER_Cause[o.cause]
    m.trip_id = o.trip_id
    m.software_release = o.software_release
    m.epoch = o.epoch


def from_protobuf_header(m: Any) -> r.Header:
    return r.Header(
        m.vehicle_id,
        m.schema_version,
        m.sequence_number,
        m.sampled_at_ms,
        NAMES_Cause[m.cause],
        m.trip_id,
        m.software_release,
        m.epoch,
    )


def json_position(o: Any) -> str:
    return f'"latitudeDeg":{repr(o.latitude_deg) if o.latitude_deg - o.latitude_deg == 0.0 else json_number(o.latitude_deg)},"longitudeDeg":{repr(o.longitude_deg) if o.longitude_deg - o.longitude_deg == 0.0 else json_number(o.longitude_deg)},"altitudeM":{TEXT[o.altitude_m]},"headingDeg":{TEXT[o.heading_deg]},"groundSpeedKmh":{TEXT[o.ground_speed_kmh]},"horizontalAccuracyM":{TEXT[o.horizontal_accuracy_m]},"satellitesUsed":{o.satellites_used},"fixTimeMs":"{o.fix_time_ms}"'


def avro_position(o: Any) -> bytes:
    return F64(o.latitude_deg) + F64(o.longitude_deg) + F32(o.altitude_m) + F32(o.heading_deg) + F32(o.ground_speed_kmh) + F32(o.horizontal_accuracy_m) + (ZIGZAG[o.satellites_used] if o.satellites_used < 128 else varint(o.satellites_used << 1)) + varint(o.fix_time_ms << 1)


def flat_position(o: Any) -> tuple[Any, ...]:
    return (o.latitude_deg, o.longitude_deg, o.fix_time_ms, o.altitude_m, o.heading_deg, o.ground_speed_kmh, o.horizontal_accuracy_m, o.satellites_used, )


def to_protobuf_position(o: Any, m: Any) -> None:
    m.latitude_deg = o.latitude_deg
    m.longitude_deg = o.longitude_deg
    m.altitude_m = o.altitude_m
    m.heading_deg = o.heading_deg
    m.ground_speed_kmh = o.ground_speed_kmh
    m.horizontal_accuracy_m = o.horizontal_accuracy_m
    m.satellites_used = o.satellites_used
    m.fix_time_ms = o.fix_time_ms


def from_protobuf_position(m: Any) -> r.Position:
    return r.Position(
        m.latitude_deg,
        m.longitude_deg,
        m.altitude_m,
        m.heading_deg,
        m.ground_speed_kmh,
        m.horizontal_accuracy_m,
        m.satellites_used,
        m.fix_time_ms,
    )


def json_reading(o: Any) -> str:
    return f'"value":{TEXT[o.value]},"ageCs":{o.age_cs},"quality":"{o.quality}","origin":"{o.origin}","trend":"{o.trend}"'


def avro_reading(o: Any) -> bytes:
    return F32(o.value) + (ZIGZAG[o.age_cs] if o.age_cs < 128 else varint(o.age_cs << 1)) + AVRO_Quality[o.quality] + AVRO_Origin[o.origin] + AVRO_Trend[o.trend]


def flat_reading(o: Any) -> tuple[Any, ...]:
    return (o.value, o.age_cs, NUMBER_Quality[o.quality], NUMBER_Origin[o.origin], NUMBER_Trend[o.trend], )


def to_protobuf_reading(o: Any, m: Any) -> None:
    m.value = o.value
    m.age_cs = o.age_cs
    m.quality = NUMBER_Quality[o.quality]
    m.origin = NUMBER_Origin[o.origin]
    m.trend = NUMBER_Trend[o.trend]


def from_protobuf_reading(m: Any) -> r.Reading:
    return r.Reading(
        m.value,
        m.age_cs,
        NAMES_Quality[m.quality],
        NAMES_Origin[m.origin],
        NAMES_Trend[m.trend],
    )


def json_flag(o: Any) -> str:
    return f'"active":{"true" if o.active else "false"},"ageCs":{o.age_cs},"quality":"{o.quality}","origin":"{o.origin}"'


def avro_flag(o: Any) -> bytes:
    return (b"\x01" if o.active else b"\x00") + (ZIGZAG[o.age_cs] if o.age_cs < 128 else varint(o.age_cs << 1)) + AVRO_Quality[o.quality] + AVRO_Origin[o.origin]


def flat_flag(o: Any) -> tuple[Any, ...]:
    return (o.age_cs, o.active, NUMBER_Quality[o.quality], NUMBER_Origin[o.origin], )


def to_protobuf_flag(o: Any, m: Any) -> None:
    m.active = o.active
    m.age_cs = o.age_cs
    m.quality = NUMBER_Quality[o.quality]
    m.origin = NUMBER_Origin[o.origin]


def from_protobuf_flag(m: Any) -> r.Flag:
    return r.Flag(
        m.active,
        m.age_cs,
        NAMES_Quality[m.quality],
        NAMES_Origin[m.origin],
    )


def json_counter(o: Any) -> str:
    return f'"value":"{o.value}","ageCs":{o.age_cs},"quality":"{o.quality}","origin":"{o.origin}"'


def avro_counter(o: Any) -> bytes:
    return varint(o.value << 1) + (ZIGZAG[o.age_cs] if o.age_cs < 128 else varint(o.age_cs << 1)) + AVRO_Quality[o.quality] + AVRO_Origin[o.origin]


def flat_counter(o: Any) -> tuple[Any, ...]:
    return (o.value, o.age_cs, NUMBER_Quality[o.quality], NUMBER_Origin[o.origin], )


def to_protobuf_counter(o: Any, m: Any) -> None:
    m.value = o.value
    m.age_cs = o.age_cs
    m.quality = NUMBER_Quality[o.quality]
    m.origin = NUMBER_Origin[o.origin]


def from_protobuf_counter(m: Any) -> r.Counter:
    return r.Counter(
        m.value,
        m.age_cs,
        NAMES_Quality[m.quality],
        NAMES_Origin[m.origin],
    )


def from_protobuf_motion(m: Any) -> r.Motion:
    return r.Motion(
        from_protobuf_reading(m.wheel_speed_average_kmh) if m.HasField("wheel_speed_average_kmh") else None,
        from_protobuf_reading(m.tachograph_speed_kmh) if m.HasField("tachograph_speed_kmh") else None,
        from_protobuf_reading(m.longitudinal_acceleration_mps2) if m.HasField("longitudinal_acceleration_mps2") else None,
        from_protobuf_reading(m.lateral_acceleration_mps2) if m.HasField("lateral_acceleration_mps2") else None,
        from_protobuf_reading(m.yaw_rate_dps) if m.HasField("yaw_rate_dps") else None,
        from_protobuf_reading(m.steering_wheel_angle_deg) if m.HasField("steering_wheel_angle_deg") else None,
        from_protobuf_reading(m.accelerator_pedal_position_pct) if m.HasField("accelerator_pedal_position_pct") else None,
        from_protobuf_reading(m.brake_pedal_position_pct) if m.HasField("brake_pedal_position_pct") else None,
        from_protobuf_flag(m.parking_brake_engaged) if m.HasField("parking_brake_engaged") else None,
        from_protobuf_flag(m.cruise_control_active) if m.HasField("cruise_control_active") else None,
        from_protobuf_flag(m.anti_lock_braking_engaged) if m.HasField("anti_lock_braking_engaged") else None,
        from_protobuf_flag(m.traction_control_engaged) if m.HasField("traction_control_engaged") else None,
        from_protobuf_flag(m.stability_control_engaged) if m.HasField("stability_control_engaged") else None,
        from_protobuf_counter(m.odometer_m) if m.HasField("odometer_m") else None,
        from_protobuf_counter(m.trip_distance_m) if m.HasField("trip_distance_m") else None,
    )


def from_protobuf_combustion(m: Any) -> r.Combustion:
    return r.Combustion(
        from_protobuf_reading(m.engine_speed_rpm) if m.HasField("engine_speed_rpm") else None,
        from_protobuf_reading(m.engine_torque_pct) if m.HasField("engine_torque_pct") else None,
        from_protobuf_reading(m.engine_load_pct) if m.HasField("engine_load_pct") else None,
        from_protobuf_reading(m.coolant_temperature_c) if m.HasField("coolant_temperature_c") else None,
        from_protobuf_reading(m.oil_temperature_c) if m.HasField("oil_temperature_c") else None,
        from_protobuf_reading(m.oil_pressure_kpa) if m.HasField("oil_pressure_kpa") else None,
        from_protobuf_reading(m.intake_air_temperature_c) if m.HasField("intake_air_temperature_c") else None,
        from_protobuf_reading(m.intake_manifold_pressure_kpa) if m.HasField("intake_manifold_pressure_kpa") else None,
        from_protobuf_reading(m.fuel_rate_lph) if m.HasField("fuel_rate_lph") else None,
        from_protobuf_reading(m.fuel_level_primary_pct) if m.HasField("fuel_level_primary_pct") else None,
        from_protobuf_reading(m.fuel_level_secondary_pct) if m.HasField("fuel_level_secondary_pct") else None,
        from_protobuf_reading(m.reductant_level_pct) if m.HasField("reductant_level_pct") else None,
        from_protobuf_reading(m.particulate_filter_soot_pct) if m.HasField("particulate_filter_soot_pct") else None,
        from_protobuf_reading(m.exhaust_gas_temperature_c) if m.HasField("exhaust_gas_temperature_c") else None,
        from_protobuf_counter(m.total_fuel_used_ml) if m.HasField("total_fuel_used_ml") else None,
        from_protobuf_counter(m.engine_running_time_s) if m.HasField("engine_running_time_s") else None,
        from_protobuf_counter(m.idle_time_s) if m.HasField("idle_time_s") else None,
    )


def from_protobuf_traction(m: Any) -> r.Traction:
    return r.Traction(
        from_protobuf_reading(m.state_of_charge_pct) if m.HasField("state_of_charge_pct") else None,
        from_protobuf_reading(m.state_of_health_pct) if m.HasField("state_of_health_pct") else None,
        from_protobuf_reading(m.pack_voltage_v) if m.HasField("pack_voltage_v") else None,
        from_protobuf_reading(m.pack_current_a) if m.HasField("pack_current_a") else None,
        from_protobuf_reading(m.pack_power_kw) if m.HasField("pack_power_kw") else None,
        from_protobuf_reading(m.pack_temperature_average_c) if m.HasField("pack_temperature_average_c") else None,
        from_protobuf_reading(m.pack_temperature_max_c) if m.HasField("pack_temperature_max_c") else None,
        from_protobuf_reading(m.pack_temperature_min_c) if m.HasField("pack_temperature_min_c") else None,
        from_protobuf_reading(m.cell_voltage_min_v) if m.HasField("cell_voltage_min_v") else None,
        from_protobuf_reading(m.cell_voltage_max_v) if m.HasField("cell_voltage_max_v") else None,
        from_protobuf_reading(m.motor_speed_rpm) if m.HasField("motor_speed_rpm") else None,
        from_protobuf_reading(m.motor_torque_nm) if m.HasField("motor_torque_nm") else None,
        from_protobuf_reading(m.motor_temperature_c) if m.HasField("motor_temperature_c") else None,
        from_protobuf_reading(m.inverter_temperature_c) if m.HasField("inverter_temperature_c") else None,
        from_protobuf_reading(m.charging_power_kw) if m.HasField("charging_power_kw") else None,
        from_protobuf_flag(m.charging_cable_connected) if m.HasField("charging_cable_connected") else None,
        from_protobuf_flag(m.charging_active) if m.HasField("charging_active") else None,
        from_protobuf_counter(m.energy_used_wh) if m.HasField("energy_used_wh") else None,
        from_protobuf_counter(m.energy_recuperated_wh) if m.HasField("energy_recuperated_wh") else None,
        from_protobuf_counter(m.estimated_range_m) if m.HasField("estimated_range_m") else None,
    )


def json_drivetrain(o: Any) -> str:
    return f'"currentGear":{o.current_gear},"selectedGear":{o.selected_gear}'


def avro_drivetrain(o: Any) -> bytes:
    return zigzag(o.current_gear) + zigzag(o.selected_gear)


def flat_drivetrain(o: Any) -> tuple[Any, ...]:
    return (o.current_gear, o.selected_gear, )


def to_protobuf_drivetrain(o: Any, m: Any) -> None:
    m.current_gear = o.current_gear
    m.selected_gear = o.selected_gear


def from_protobuf_drivetrain(m: Any) -> r.Drivetrain:
    return r.Drivetrain(
        from_protobuf_reading(m.transmission_oil_temperature_c) if m.HasField("transmission_oil_temperature_c") else None,
        m.current_gear,
        m.selected_gear,
        from_protobuf_reading(m.clutch_wear_pct) if m.HasField("clutch_wear_pct") else None,
        from_protobuf_reading(m.retarder_torque_pct) if m.HasField("retarder_torque_pct") else None,
        from_protobuf_flag(m.power_takeoff_engaged) if m.HasField("power_takeoff_engaged") else None,
    )


def json_wheel(o: Any) -> str:
    return f'"wheelNumber":{o.wheel_number}'


def avro_wheel(o: Any) -> bytes:
    return (ZIGZAG[o.wheel_number] if o.wheel_number < 128 else varint(o.wheel_number << 1))


def flat_wheel(o: Any) -> tuple[Any, ...]:
    return (o.wheel_number, )


def to_protobuf_wheel(o: Any, m: Any) -> None:
    m.wheel_number = o.wheel_number


def from_protobuf_wheel(m: Any) -> r.Wheel:
    return r.Wheel(
        m.wheel_number,
        from_protobuf_reading(m.tyre_pressure_kpa) if m.HasField("tyre_pressure_kpa") else None,
        from_protobuf_reading(m.tyre_temperature_c) if m.HasField("tyre_temperature_c") else None,
        from_protobuf_reading(m.brake_lining_remaining_pct) if m.HasField("brake_lining_remaining_pct") else None,
    )


def json_axle(o: Any) -> str:
    return f'"axleNumber":{o.axle_number}'


def avro_axle(o: Any) -> bytes:
    return (ZIGZAG[o.axle_number] if o.axle_number < 128 else varint(o.axle_number << 1))


def flat_axle(o: Any) -> tuple[Any, ...]:
    return (o.axle_number, )


def to_protobuf_axle(o: Any, m: Any) -> None:
    m.axle_number = o.axle_number


def from_protobuf_axle(m: Any) -> r.Axle:
    return r.Axle(
        m.axle_number,
        from_protobuf_reading(m.axle_load_kg) if m.HasField("axle_load_kg") else None,
        [from_protobuf_wheel(x) for x in m.wheels],
    )


def json_trailer(o: Any) -> str:
    return f'"trailerNumber":{o.trailer_number},"trailerId":{json_string(o.trailer_id)}'


def avro_trailer(o: Any) -> bytes:
    return (ZIGZAG[o.trailer_number] if o.trailer_number < 128 else varint(o.trailer_number << 1)) + avro_string(o.trailer_id)


def flat_trailer(o: Any) -> tuple[Any, ...]:
    return (o.trailer_number, )


def to_protobuf_trailer(o: Any, m: Any) -> None:
    m.trailer_number = o.trailer_number
    m.trailer_id = o.trailer_id


def from_protobuf_trailer(m: Any) -> r.Trailer:
    return r.Trailer(
        m.trailer_number,
        m.trailer_id,
        from_protobuf_flag(m.electrically_connected) if m.HasField("electrically_connected") else None,
        from_protobuf_reading(m.cargo_temperature_c) if m.HasField("cargo_temperature_c") else None,
        [from_protobuf_axle(x) for x in m.axles],
    )


def from_protobuf_body(m: Any) -> r.Body:
    return r.Body(
        from_protobuf_reading(m.ambient_temperature_c) if m.HasField("ambient_temperature_c") else None,
        from_protobuf_reading(m.cabin_temperature_c) if m.HasField("cabin_temperature_c") else None,
        from_protobuf_reading(m.supply_voltage_v) if m.HasField("supply_voltage_v") else None,
        from_protobuf_reading(m.supply_current_a) if m.HasField("supply_current_a") else None,
        from_protobuf_reading(m.service_brake_pressure_front_kpa) if m.HasField("service_brake_pressure_front_kpa") else None,
        from_protobuf_reading(m.service_brake_pressure_rear_kpa) if m.HasField("service_brake_pressure_rear_kpa") else None,
        from_protobuf_reading(m.washer_fluid_level_pct) if m.HasField("washer_fluid_level_pct") else None,
        from_protobuf_flag(m.wipers_running) if m.HasField("wipers_running") else None,
        from_protobuf_flag(m.low_beam_on) if m.HasField("low_beam_on") else None,
        from_protobuf_flag(m.high_beam_on) if m.HasField("high_beam_on") else None,
        from_protobuf_flag(m.hazard_lights_on) if m.HasField("hazard_lights_on") else None,
        from_protobuf_flag(m.rain_detected) if m.HasField("rain_detected") else None,
        from_protobuf_flag(m.driver_door_open) if m.HasField("driver_door_open") else None,
        from_protobuf_flag(m.passenger_door_open) if m.HasField("passenger_door_open") else None,
        from_protobuf_flag(m.cargo_door_open) if m.HasField("cargo_door_open") else None,
        from_protobuf_flag(m.driver_belt_fastened) if m.HasField("driver_belt_fastened") else None,
        from_protobuf_counter(m.distance_to_service_m) if m.HasField("distance_to_service_m") else None,
    )


def json_crew(o: Any) -> str:
    return f'"driverCardId":{json_string(o.driver_card_id)},"activity":{o.activity},"continuousDrivingS":{o.continuous_driving_s}'


def avro_crew(o: Any) -> bytes:
    return avro_string(o.driver_card_id) + (ZIGZAG[o.activity] if o.activity < 128 else varint(o.activity << 1)) + (ZIGZAG[o.continuous_driving_s] if o.continuous_driving_s < 128 else varint(o.continuous_driving_s << 1))


def flat_crew(o: Any) -> tuple[Any, ...]:
    return (o.activity, o.continuous_driving_s, )


def to_protobuf_crew(o: Any, m: Any) -> None:
    m.driver_card_id = o.driver_card_id
    m.activity = o.activity
    m.continuous_driving_s = o.continuous_driving_s


def from_protobuf_crew(m: Any) -> r.Crew:
    return r.Crew(
        m.driver_card_id,
        m.activity,
        m.continuous_driving_s,
    )


def json_lamp(o: Any) -> str:
    return f'"lamp":"{o.lamp}","state":"{o.state}","activations":{o.activations}'


def avro_lamp(o: Any) -> bytes:
    return AVRO_LampKind[o.lamp] + AVRO_LampState[o.state] + (ZIGZAG[o.activations] if o.activations < 128 else varint(o.activations << 1))


def flat_lamp(o: Any) -> tuple[Any, ...]:
    return (o.activations, NUMBER_LampKind[o.lamp], NUMBER_LampState[o.state], )


def to_protobuf_lamp(o: Any, m: Any) -> None:
    m.lamp = NUMBER_LampKind[o.lamp]
    m.state = NUMBER_LampState[o.state]
    m.activations = o.activations


def from_protobuf_lamp(m: Any) -> r.Lamp:
    return r.Lamp(
        NAMES_LampKind[m.lamp],
        NAMES_LampState[m.state],
        m.activations,
    )


def json_connectivity(o: Any) -> str:
    return f'"operatorCode":{json_string(o.operator_code)},"radioTechnology":{o.radio_technology},"rsrpDbm":{o.rsrp_dbm},"rsrqDb":{o.rsrq_db},"sinrDb":{o.sinr_db},"cellId":"{o.cell_id}","queuedMessages":{o.queued_messages}'


def avro_connectivity(o: Any) -> bytes:
    return avro_string(o.operator_code) + (ZIGZAG[o.radio_technology] if o.radio_technology < 128 else varint(o.radio_technology << 1)) + zigzag(o.rsrp_dbm) + zigzag(o.rsrq_db) + zigzag(o.sinr_db) + varint(o.cell_id << 1) + (ZIGZAG[o.queued_messages] if o.queued_messages < 128 else varint(o.queued_messages << 1))


def flat_connectivity(o: Any) -> tuple[Any, ...]:
    return (o.cell_id, o.radio_technology, o.rsrp_dbm, o.rsrq_db, o.sinr_db, o.queued_messages, )


def to_protobuf_connectivity(o: Any, m: Any) -> None:
    m.operator_code = o.operator_code
    m.radio_technology = o.radio_technology
    m.rsrp_dbm = o.rsrp_dbm
    m.rsrq_db = o.rsrq_db
    m.sinr_db = o.sinr_db
    m.cell_id = o.cell_id
    m.queued_messages = o.queued_messages


def from_protobuf_connectivity(m: Any) -> r.Connectivity:
    return r.Connectivity(
        m.operator_code,
        m.radio_technology,
        m.rsrp_dbm,
        m.rsrq_db,
        m.sinr_db,
        m.cell_id,
        m.queued_messages,
    )


def fill_header(o: Any, m: Any) -> None:
    to_protobuf_header(o, m)


def whole_json_header(o: Any) -> str:
    return json_header(o)


def fill_position(o: Any, m: Any) -> None:
    to_protobuf_position(o, m)


def whole_json_position(o: Any) -> str:
    return json_position(o)


def fill_reading(o: Any, m: Any) -> None:
    to_protobuf_reading(o, m)


def whole_json_reading(o: Any) -> str:
    return json_reading(o)


def fill_flag(o: Any, m: Any) -> None:
    to_protobuf_flag(o, m)


def whole_json_flag(o: Any) -> str:
    return json_flag(o)


def fill_counter(o: Any, m: Any) -> None:
    to_protobuf_counter(o, m)


def whole_json_counter(o: Any) -> str:
    return json_counter(o)


def fill_motion(o: Any, m: Any) -> None:
    x = o.wheel_speed_average_kmh
    if x is not None:
        fill_reading(x, m.wheel_speed_average_kmh)
    x = o.tachograph_speed_kmh
    if x is not None:
        fill_reading(x, m.tachograph_speed_kmh)
    x = o.longitudinal_acceleration_mps2
    if x is not None:
        fill_reading(x, m.longitudinal_acceleration_mps2)
    x = o.lateral_acceleration_mps2
    if x is not None:
        fill_reading(x, m.lateral_acceleration_mps2)
    x = o.yaw_rate_dps
    if x is not None:
        fill_reading(x, m.yaw_rate_dps)
    x = o.steering_wheel_angle_deg
    if x is not None:
        fill_reading(x, m.steering_wheel_angle_deg)
    x = o.accelerator_pedal_position_pct
    if x is not None:
        fill_reading(x, m.accelerator_pedal_position_pct)
    x = o.brake_pedal_position_pct
    if x is not None:
        fill_reading(x, m.brake_pedal_position_pct)
    x = o.parking_brake_engaged
    if x is not None:
        fill_flag(x, m.parking_brake_engaged)
    x = o.cruise_control_active
    if x is not None:
        fill_flag(x, m.cruise_control_active)
    x = o.anti_lock_braking_engaged
    if x is not None:
        fill_flag(x, m.anti_lock_braking_engaged)
    x = o.traction_control_engaged
    if x is not None:
        fill_flag(x, m.traction_control_engaged)
    x = o.stability_control_engaged
    if x is not None:
        fill_flag(x, m.stability_control_engaged)
    x = o.odometer_m
    if x is not None:
        fill_counter(x, m.odometer_m)
    x = o.trip_distance_m
    if x is not None:
        fill_counter(x, m.trip_distance_m)


def whole_json_motion(o: Any) -> str:
    parts: list[str] = []
    x = o.wheel_speed_average_kmh
    if x is not None:
        parts.append(f'"wheelSpeedAverageKmh":{{{whole_json_reading(x)}}}')
    x = o.tachograph_speed_kmh
    if x is not None:
        parts.append(f'"tachographSpeedKmh":{{{whole_json_reading(x)}}}')
    x = o.longitudinal_acceleration_mps2
    if x is not None:
        parts.append(f'"longitudinalAccelerationMps2":{{{whole_json_reading(x)}}}')
    x = o.lateral_acceleration_mps2
    if x is not None:
        parts.append(f'"lateralAccelerationMps2":{{{whole_json_reading(x)}}}')
    x = o.yaw_rate_dps
    if x is not None:
        parts.append(f'"yawRateDps":{{{whole_json_reading(x)}}}')
    x = o.steering_wheel_angle_deg
    if x is not None:
        parts.append(f'"steeringWheelAngleDeg":{{{whole_json_reading(x)}}}')
    x = o.accelerator_pedal_position_pct
    if x is not None:
        parts.append(f'"acceleratorPedalPositionPct":{{{whole_json_reading(x)}}}')
    x = o.brake_pedal_position_pct
    if x is not None:
        parts.append(f'"brakePedalPositionPct":{{{whole_json_reading(x)}}}')
    x = o.parking_brake_engaged
    if x is not None:
        parts.append(f'"parkingBrakeEngaged":{{{whole_json_flag(x)}}}')
    x = o.cruise_control_active
    if x is not None:
        parts.append(f'"cruiseControlActive":{{{whole_json_flag(x)}}}')
    x = o.anti_lock_braking_engaged
    if x is not None:
        parts.append(f'"antiLockBrakingEngaged":{{{whole_json_flag(x)}}}')
    x = o.traction_control_engaged
    if x is not None:
        parts.append(f'"tractionControlEngaged":{{{whole_json_flag(x)}}}')
    x = o.stability_control_engaged
    if x is not None:
        parts.append(f'"stabilityControlEngaged":{{{whole_json_flag(x)}}}')
    x = o.odometer_m
    if x is not None:
        parts.append(f'"odometerM":{{{whole_json_counter(x)}}}')
    x = o.trip_distance_m
    if x is not None:
        parts.append(f'"tripDistanceM":{{{whole_json_counter(x)}}}')
    return ','.join(parts)


def fill_combustion(o: Any, m: Any) -> None:
    x = o.engine_speed_rpm
    if x is not None:
        fill_reading(x, m.engine_speed_rpm)
    x = o.engine_torque_pct
    if x is not None:
        fill_reading(x, m.engine_torque_pct)
    x = o.engine_load_pct
    if x is not None:
        fill_reading(x, m.engine_load_pct)
    x = o.coolant_temperature_c
    if x is not None:
        fill_reading(x, m.coolant_temperature_c)
    x = o.oil_temperature_c
    if x is not None:
        fill_reading(x, m.oil_temperature_c)
    x = o.oil_pressure_kpa
    if x is not None:
        fill_reading(x, m.oil_pressure_kpa)
    x = o.intake_air_temperature_c
    if x is not None:
        fill_reading(x, m.intake_air_temperature_c)
    x = o.intake_manifold_pressure_kpa
    if x is not None:
        fill_reading(x, m.intake_manifold_pressure_kpa)
    x = o.fuel_rate_lph
    if x is not None:
        fill_reading(x, m.fuel_rate_lph)
    x = o.fuel_level_primary_pct
    if x is not None:
        fill_reading(x, m.fuel_level_primary_pct)
    x = o.fuel_level_secondary_pct
    if x is not None:
        fill_reading(x, m.fuel_level_secondary_pct)
    x = o.reductant_level_pct
    if x is not None:
        fill_reading(x, m.reductant_level_pct)
    x = o.particulate_filter_soot_pct
    if x is not None:
        fill_reading(x, m.particulate_filter_soot_pct)
    x = o.exhaust_gas_temperature_c
    if x is not None:
        fill_reading(x, m.exhaust_gas_temperature_c)
    x = o.total_fuel_used_ml
    if x is not None:
        fill_counter(x, m.total_fuel_used_ml)
    x = o.engine_running_time_s
    if x is not None:
        fill_counter(x, m.engine_running_time_s)
    x = o.idle_time_s
    if x is not None:
        fill_counter(x, m.idle_time_s)


def whole_json_combustion(o: Any) -> str:
    parts: list[str] = []
    x = o.engine_speed_rpm
    if x is not None:
        parts.append(f'"engineSpeedRpm":{{{whole_json_reading(x)}}}')
    x = o.engine_torque_pct
    if x is not None:
        parts.append(f'"engineTorquePct":{{{whole_json_reading(x)}}}')
    x = o.engine_load_pct
    if x is not None:
        parts.append(f'"engineLoadPct":{{{whole_json_reading(x)}}}')
    x = o.coolant_temperature_c
    if x is not None:
        parts.append(f'"coolantTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.oil_temperature_c
    if x is not None:
        parts.append(f'"oilTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.oil_pressure_kpa
    if x is not None:
        parts.append(f'"oilPressureKpa":{{{whole_json_reading(x)}}}')
    x = o.intake_air_temperature_c
    if x is not None:
        parts.append(f'"intakeAirTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.intake_manifold_pressure_kpa
    if x is not None:
        parts.append(f'"intakeManifoldPressureKpa":{{{whole_json_reading(x)}}}')
    x = o.fuel_rate_lph
    if x is not None:
        parts.append(f'"fuelRateLph":{{{whole_json_reading(x)}}}')
    x = o.fuel_level_primary_pct
    if x is not None:
        parts.append(f'"fuelLevelPrimaryPct":{{{whole_json_reading(x)}}}')
    x = o.fuel_level_secondary_pct
    if x is not None:
        parts.append(f'"fuelLevelSecondaryPct":{{{whole_json_reading(x)}}}')
    x = o.reductant_level_pct
    if x is not None:
        parts.append(f'"reductantLevelPct":{{{whole_json_reading(x)}}}')
    x = o.particulate_filter_soot_pct
    if x is not None:
        parts.append(f'"particulateFilterSootPct":{{{whole_json_reading(x)}}}')
    x = o.exhaust_gas_temperature_c
    if x is not None:
        parts.append(f'"exhaustGasTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.total_fuel_used_ml
    if x is not None:
        parts.append(f'"totalFuelUsedMl":{{{whole_json_counter(x)}}}')
    x = o.engine_running_time_s
    if x is not None:
        parts.append(f'"engineRunningTimeS":{{{whole_json_counter(x)}}}')
    x = o.idle_time_s
    if x is not None:
        parts.append(f'"idleTimeS":{{{whole_json_counter(x)}}}')
    return ','.join(parts)


def fill_traction(o: Any, m: Any) -> None:
    x = o.state_of_charge_pct
    if x is not None:
        fill_reading(x, m.state_of_charge_pct)
    x = o.state_of_health_pct
    if x is not None:
        fill_reading(x, m.state_of_health_pct)
    x = o.pack_voltage_v
    if x is not None:
        fill_reading(x, m.pack_voltage_v)
    x = o.pack_current_a
    if x is not None:
        fill_reading(x, m.pack_current_a)
    x = o.pack_power_kw
    if x is not None:
        fill_reading(x, m.pack_power_kw)
    x = o.pack_temperature_average_c
    if x is not None:
        fill_reading(x, m.pack_temperature_average_c)
    x = o.pack_temperature_max_c
    if x is not None:
        fill_reading(x, m.pack_temperature_max_c)
    x = o.pack_temperature_min_c
    if x is not None:
        fill_reading(x, m.pack_temperature_min_c)
    x = o.cell_voltage_min_v
    if x is not None:
        fill_reading(x, m.cell_voltage_min_v)
    x = o.cell_voltage_max_v
    if x is not None:
        fill_reading(x, m.cell_voltage_max_v)
    x = o.motor_speed_rpm
    if x is not None:
        fill_reading(x, m.motor_speed_rpm)
    x = o.motor_torque_nm
    if x is not None:
        fill_reading(x, m.motor_torque_nm)
    x = o.motor_temperature_c
    if x is not None:
        fill_reading(x, m.motor_temperature_c)
    x = o.inverter_temperature_c
    if x is not None:
        fill_reading(x, m.inverter_temperature_c)
    x = o.charging_power_kw
    if x is not None:
        fill_reading(x, m.charging_power_kw)
    x = o.charging_cable_connected
    if x is not None:
        fill_flag(x, m.charging_cable_connected)
    x = o.charging_active
    if x is not None:
        fill_flag(x, m.charging_active)
    x = o.energy_used_wh
    if x is not None:
        fill_counter(x, m.energy_used_wh)
    x = o.energy_recuperated_wh
    if x is not None:
        fill_counter(x, m.energy_recuperated_wh)
    x = o.estimated_range_m
    if x is not None:
        fill_counter(x, m.estimated_range_m)


def whole_json_traction(o: Any) -> str:
    parts: list[str] = []
    x = o.state_of_charge_pct
    if x is not None:
        parts.append(f'"stateOfChargePct":{{{whole_json_reading(x)}}}')
    x = o.state_of_health_pct
    if x is not None:
        parts.append(f'"stateOfHealthPct":{{{whole_json_reading(x)}}}')
    x = o.pack_voltage_v
    if x is not None:
        parts.append(f'"packVoltageV":{{{whole_json_reading(x)}}}')
    x = o.pack_current_a
    if x is not None:
        parts.append(f'"packCurrentA":{{{whole_json_reading(x)}}}')
    x = o.pack_power_kw
    if x is not None:
        parts.append(f'"packPowerKw":{{{whole_json_reading(x)}}}')
    x = o.pack_temperature_average_c
    if x is not None:
        parts.append(f'"packTemperatureAverageC":{{{whole_json_reading(x)}}}')
    x = o.pack_temperature_max_c
    if x is not None:
        parts.append(f'"packTemperatureMaxC":{{{whole_json_reading(x)}}}')
    x = o.pack_temperature_min_c
    if x is not None:
        parts.append(f'"packTemperatureMinC":{{{whole_json_reading(x)}}}')
    x = o.cell_voltage_min_v
    if x is not None:
        parts.append(f'"cellVoltageMinV":{{{whole_json_reading(x)}}}')
    x = o.cell_voltage_max_v
    if x is not None:
        parts.append(f'"cellVoltageMaxV":{{{whole_json_reading(x)}}}')
    x = o.motor_speed_rpm
    if x is not None:
        parts.append(f'"motorSpeedRpm":{{{whole_json_reading(x)}}}')
    x = o.motor_torque_nm
    if x is not None:
        parts.append(f'"motorTorqueNm":{{{whole_json_reading(x)}}}')
    x = o.motor_temperature_c
    if x is not None:
        parts.append(f'"motorTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.inverter_temperature_c
    if x is not None:
        parts.append(f'"inverterTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.charging_power_kw
    if x is not None:
        parts.append(f'"chargingPowerKw":{{{whole_json_reading(x)}}}')
    x = o.charging_cable_connected
    if x is not None:
        parts.append(f'"chargingCableConnected":{{{whole_json_flag(x)}}}')
    x = o.charging_active
    if x is not None:
        parts.append(f'"chargingActive":{{{whole_json_flag(x)}}}')
    x = o.energy_used_wh
    if x is not None:
        parts.append(f'"energyUsedWh":{{{whole_json_counter(x)}}}')
    x = o.energy_recuperated_wh
    if x is not None:
        parts.append(f'"energyRecuperatedWh":{{{whole_json_counter(x)}}}')
    x = o.estimated_range_m
    if x is not None:
        parts.append(f'"estimatedRangeM":{{{whole_json_counter(x)}}}')
    return ','.join(parts)


def fill_drivetrain(o: Any, m: Any) -> None:
    to_protobuf_drivetrain(o, m)
    x = o.transmission_oil_temperature_c
    if x is not None:
        fill_reading(x, m.transmission_oil_temperature_c)
    x = o.clutch_wear_pct
    if x is not None:
        fill_reading(x, m.clutch_wear_pct)
    x = o.retarder_torque_pct
    if x is not None:
        fill_reading(x, m.retarder_torque_pct)
    x = o.power_takeoff_engaged
    if x is not None:
        fill_flag(x, m.power_takeoff_engaged)


def whole_json_drivetrain(o: Any) -> str:
    parts: list[str] = []
    x = o.transmission_oil_temperature_c
    if x is not None:
        parts.append(f'"transmissionOilTemperatureC":{{{whole_json_reading(x)}}}')
    parts.append(json_drivetrain(o))
    x = o.clutch_wear_pct
    if x is not None:
        parts.append(f'"clutchWearPct":{{{whole_json_reading(x)}}}')
    x = o.retarder_torque_pct
    if x is not None:
        parts.append(f'"retarderTorquePct":{{{whole_json_reading(x)}}}')
    x = o.power_takeoff_engaged
    if x is not None:
        parts.append(f'"powerTakeoffEngaged":{{{whole_json_flag(x)}}}')
    return ','.join(parts)


def fill_wheel(o: Any, m: Any) -> None:
    to_protobuf_wheel(o, m)
    x = o.tyre_pressure_kpa
    if x is not None:
        fill_reading(x, m.tyre_pressure_kpa)
    x = o.tyre_temperature_c
    if x is not None:
        fill_reading(x, m.tyre_temperature_c)
    x = o.brake_lining_remaining_pct
    if x is not None:
        fill_reading(x, m.brake_lining_remaining_pct)


def whole_json_wheel(o: Any) -> str:
    parts: list[str] = []
    parts.append(json_wheel(o))
    x = o.tyre_pressure_kpa
    if x is not None:
        parts.append(f'"tyrePressureKpa":{{{whole_json_reading(x)}}}')
    x = o.tyre_temperature_c
    if x is not None:
        parts.append(f'"tyreTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.brake_lining_remaining_pct
    if x is not None:
        parts.append(f'"brakeLiningRemainingPct":{{{whole_json_reading(x)}}}')
    return ','.join(parts)


def fill_axle(o: Any, m: Any) -> None:
    to_protobuf_axle(o, m)
    x = o.axle_load_kg
    if x is not None:
        fill_reading(x, m.axle_load_kg)
    x = o.wheels
    add = m.wheels.add
    for y in x:
        fill_wheel(y, add())


def whole_json_axle(o: Any) -> str:
    parts: list[str] = []
    parts.append(json_axle(o))
    x = o.axle_load_kg
    if x is not None:
        parts.append(f'"axleLoadKg":{{{whole_json_reading(x)}}}')
    texts = [f'{{{whole_json_wheel(x)}}}' for x in o.wheels]
    parts.append(f'"wheels":[{",".join(texts)}]')
    return ','.join(parts)


def fill_trailer(o: Any, m: Any) -> None:
    to_protobuf_trailer(o, m)
    x = o.electrically_connected
    if x is not None:
        fill_flag(x, m.electrically_connected)
    x = o.cargo_temperature_c
    if x is not None:
        fill_reading(x, m.cargo_temperature_c)
    x = o.axles
    add = m.axles.add
    for y in x:
        fill_axle(y, add())


def whole_json_trailer(o: Any) -> str:
    parts: list[str] = []
    parts.append(json_trailer(o))
    x = o.electrically_connected
    if x is not None:
        parts.append(f'"electricallyConnected":{{{whole_json_flag(x)}}}')
    x = o.cargo_temperature_c
    if x is not None:
        parts.append(f'"cargoTemperatureC":{{{whole_json_reading(x)}}}')
    texts = [f'{{{whole_json_axle(x)}}}' for x in o.axles]
    parts.append(f'"axles":[{",".join(texts)}]')
    return ','.join(parts)


def fill_body(o: Any, m: Any) -> None:
    x = o.ambient_temperature_c
    if x is not None:
        fill_reading(x, m.ambient_temperature_c)
    x = o.cabin_temperature_c
    if x is not None:
        fill_reading(x, m.cabin_temperature_c)
    x = o.supply_voltage_v
    if x is not None:
        fill_reading(x, m.supply_voltage_v)
    x = o.supply_current_a
    if x is not None:
        fill_reading(x, m.supply_current_a)
    x = o.service_brake_pressure_front_kpa
    if x is not None:
        fill_reading(x, m.service_brake_pressure_front_kpa)
    x = o.service_brake_pressure_rear_kpa
    if x is not None:
        fill_reading(x, m.service_brake_pressure_rear_kpa)
    x = o.washer_fluid_level_pct
    if x is not None:
        fill_reading(x, m.washer_fluid_level_pct)
    x = o.wipers_running
    if x is not None:
        fill_flag(x, m.wipers_running)
    x = o.low_beam_on
    if x is not None:
        fill_flag(x, m.low_beam_on)
    x = o.high_beam_on
    if x is not None:
        fill_flag(x, m.high_beam_on)
    x = o.hazard_lights_on
    if x is not None:
        fill_flag(x, m.hazard_lights_on)
    x = o.rain_detected
    if x is not None:
        fill_flag(x, m.rain_detected)
    x = o.driver_door_open
    if x is not None:
        fill_flag(x, m.driver_door_open)
    x = o.passenger_door_open
    if x is not None:
        fill_flag(x, m.passenger_door_open)
    x = o.cargo_door_open
    if x is not None:
        fill_flag(x, m.cargo_door_open)
    x = o.driver_belt_fastened
    if x is not None:
        fill_flag(x, m.driver_belt_fastened)
    x = o.distance_to_service_m
    if x is not None:
        fill_counter(x, m.distance_to_service_m)


def whole_json_body(o: Any) -> str:
    parts: list[str] = []
    x = o.ambient_temperature_c
    if x is not None:
        parts.append(f'"ambientTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.cabin_temperature_c
    if x is not None:
        parts.append(f'"cabinTemperatureC":{{{whole_json_reading(x)}}}')
    x = o.supply_voltage_v
    if x is not None:
        parts.append(f'"supplyVoltageV":{{{whole_json_reading(x)}}}')
    x = o.supply_current_a
    if x is not None:
        parts.append(f'"supplyCurrentA":{{{whole_json_reading(x)}}}')
    x = o.service_brake_pressure_front_kpa
    if x is not None:
        parts.append(f'"serviceBrakePressureFrontKpa":{{{whole_json_reading(x)}}}')
    x = o.service_brake_pressure_rear_kpa
    if x is not None:
        parts.append(f'"serviceBrakePressureRearKpa":{{{whole_json_reading(x)}}}')
    x = o.washer_fluid_level_pct
    if x is not None:
        parts.append(f'"washerFluidLevelPct":{{{whole_json_reading(x)}}}')
    x = o.wipers_running
    if x is not None:
        parts.append(f'"wipersRunning":{{{whole_json_flag(x)}}}')
    x = o.low_beam_on
    if x is not None:
        parts.append(f'"lowBeamOn":{{{whole_json_flag(x)}}}')
    x = o.high_beam_on
    if x is not None:
        parts.append(f'"highBeamOn":{{{whole_json_flag(x)}}}')
    x = o.hazard_lights_on
    if x is not None:
        parts.append(f'"hazardLightsOn":{{{whole_json_flag(x)}}}')
    x = o.rain_detected
    if x is not None:
        parts.append(f'"rainDetected":{{{whole_json_flag(x)}}}')
    x = o.driver_door_open
    if x is not None:
        parts.append(f'"driverDoorOpen":{{{whole_json_flag(x)}}}')
    x = o.passenger_door_open
    if x is not None:
        parts.append(f'"passengerDoorOpen":{{{whole_json_flag(x)}}}')
    x = o.cargo_door_open
    if x is not None:
        parts.append(f'"cargoDoorOpen":{{{whole_json_flag(x)}}}')
    x = o.driver_belt_fastened
    if x is not None:
        parts.append(f'"driverBeltFastened":{{{whole_json_flag(x)}}}')
    x = o.distance_to_service_m
    if x is not None:
        parts.append(f'"distanceToServiceM":{{{whole_json_counter(x)}}}')
    return ','.join(parts)


def fill_crew(o: Any, m: Any) -> None:
    to_protobuf_crew(o, m)


def whole_json_crew(o: Any) -> str:
    return json_crew(o)


def fill_lamp(o: Any, m: Any) -> None:
    to_protobuf_lamp(o, m)


def whole_json_lamp(o: Any) -> str:
    return json_lamp(o)


def fill_connectivity(o: Any, m: Any) -> None:
    to_protobuf_connectivity(o, m)


def whole_json_connectivity(o: Any) -> str:
    return json_connectivity(o)


def fill_current_status(o: Any, m: Any) -> None:
    x = o.header
    if x is not None:
        m.header.SetInParent()
        fill_header(x, m.header)
    x = o.position
    if x is not None:
        m.position.SetInParent()
        fill_position(x, m.position)
    x = o.motion
    if x is not None:
        m.motion.SetInParent()
        fill_motion(x, m.motion)
    x = o.combustion
    if x is not None:
        m.combustion.SetInParent()
        fill_combustion(x, m.combustion)
    x = o.traction
    if x is not None:
        m.traction.SetInParent()
        fill_traction(x, m.traction)
    x = o.drivetrain
    if x is not None:
        m.drivetrain.SetInParent()
        fill_drivetrain(x, m.drivetrain)
    x = o.axles
    add = m.axles.add
    for y in x:
        fill_axle(y, add())
    x = o.trailers
    add = m.trailers.add
    for y in x:
        fill_trailer(y, add())
    x = o.body
    if x is not None:
        m.body.SetInParent()
        fill_body(x, m.body)
    x = o.crew
    add = m.crew.add
    for y in x:
        fill_crew(y, add())
    x = o.lamps
    add = m.lamps.add
    for y in x:
        fill_lamp(y, add())
    x = o.connectivity
    if x is not None:
        m.connectivity.SetInParent()
        fill_connectivity(x, m.connectivity)


def whole_json_current_status(o: Any) -> str:
    parts: list[str] = []
    x = o.header
    if x is not None:
        parts.append(f'"header":{{{whole_json_header(x)}}}')
    x = o.position
    if x is not None:
        parts.append(f'"position":{{{whole_json_position(x)}}}')
    x = o.motion
    if x is not None:
        parts.append(f'"motion":{{{whole_json_motion(x)}}}')
    x = o.combustion
    if x is not None:
        parts.append(f'"combustion":{{{whole_json_combustion(x)}}}')
    x = o.traction
    if x is not None:
        parts.append(f'"traction":{{{whole_json_traction(x)}}}')
    x = o.drivetrain
    if x is not None:
        parts.append(f'"drivetrain":{{{whole_json_drivetrain(x)}}}')
    texts = [f'{{{whole_json_axle(x)}}}' for x in o.axles]
    parts.append(f'"axles":[{",".join(texts)}]')
    texts = [f'{{{whole_json_trailer(x)}}}' for x in o.trailers]
    parts.append(f'"trailers":[{",".join(texts)}]')
    x = o.body
    if x is not None:
        parts.append(f'"body":{{{whole_json_body(x)}}}')
    texts = [f'{{{whole_json_crew(x)}}}' for x in o.crew]
    parts.append(f'"crew":[{",".join(texts)}]')
    texts = [f'{{{whole_json_lamp(x)}}}' for x in o.lamps]
    parts.append(f'"lamps":[{",".join(texts)}]')
    x = o.connectivity
    if x is not None:
        parts.append(f'"connectivity":{{{whole_json_connectivity(x)}}}')
    return ','.join(parts)


NAMES = {'Quality': NAMES_Quality, 'Trend': NAMES_Trend, 'Origin': NAMES_Origin, 'Cause': NAMES_Cause, 'LampKind': NAMES_LampKind, 'LampState': NAMES_LampState}
JSON: dict[type[Any], Any] = {r.Header: json_header, r.Position: json_position, r.Reading: json_reading, r.Flag: json_flag, r.Counter: json_counter, r.Drivetrain: json_drivetrain, r.Wheel: json_wheel, r.Axle: json_axle, r.Trailer: json_trailer, r.Crew: json_crew, r.Lamp: json_lamp, r.Connectivity: json_connectivity}
AVRO: dict[type[Any], Any] = {r.Header: avro_header, r.Position: avro_position, r.Reading: avro_reading, r.Flag: avro_flag, r.Counter: avro_counter, r.Drivetrain: avro_drivetrain, r.Wheel: avro_wheel, r.Axle: avro_axle, r.Trailer: avro_trailer, r.Crew: avro_crew, r.Lamp: avro_lamp, r.Connectivity: avro_connectivity}
FLAT: dict[type[Any], Any] = {r.Header: flat_header, r.Position: flat_position, r.Reading: flat_reading, r.Flag: flat_flag, r.Counter: flat_counter, r.Drivetrain: flat_drivetrain, r.Wheel: flat_wheel, r.Axle: flat_axle, r.Trailer: flat_trailer, r.Crew: flat_crew, r.Lamp: flat_lamp, r.Connectivity: flat_connectivity}
TO_PROTOBUF: dict[type[Any], Any] = {r.Header: to_protobuf_header, r.Position: to_protobuf_position, r.Reading: to_protobuf_reading, r.Flag: to_protobuf_flag, r.Counter: to_protobuf_counter, r.Drivetrain: to_protobuf_drivetrain, r.Wheel: to_protobuf_wheel, r.Axle: to_protobuf_axle, r.Trailer: to_protobuf_trailer, r.Crew: to_protobuf_crew, r.Lamp: to_protobuf_lamp, r.Connectivity: to_protobuf_connectivity}
FROM_PROTOBUF = {'Header': from_protobuf_header, 'Position': from_protobuf_position, 'Reading': from_protobuf_reading, 'Flag': from_protobuf_flag, 'Counter': from_protobuf_counter, 'Motion': from_protobuf_motion, 'Combustion': from_protobuf_combustion, 'Traction': from_protobuf_traction, 'Drivetrain': from_protobuf_drivetrain, 'Wheel': from_protobuf_wheel, 'Axle': from_protobuf_axle, 'Trailer': from_protobuf_trailer, 'Body': from_protobuf_body, 'Crew': from_protobuf_crew, 'Lamp': from_protobuf_lamp, 'Connectivity': from_protobuf_connectivity}
