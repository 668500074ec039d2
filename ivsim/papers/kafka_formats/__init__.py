"""The Kafka formats thesis (Myastovskiy 2024): JSON, MessagePack, Avro and Protobuf through Kafka."""
