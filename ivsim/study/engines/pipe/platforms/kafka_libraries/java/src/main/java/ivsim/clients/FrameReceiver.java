package ivsim.clients;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A consumer that gives all records of a poll by one call. */
public final class FrameReceiver implements AutoCloseable {
    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;

    /** Makes a consumer. */
    public FrameReceiver(String properties, String topic) {
        this.topic = topic;
        consumer = new KafkaConsumer<>(Frames.properties(properties));
    }

    /** Returns the offset at which each partition begins: behind what was committed, or at 0. */
    public long[] open(int[] partitions, boolean resumed) {
        List<TopicPartition> assigned = new ArrayList<>();
        for (int partition : partitions) {
            assigned.add(new TopicPartition(topic, partition));
        }
        Map<TopicPartition, OffsetAndMetadata> committed =
                resumed ? consumer.committed(new HashSet<>(assigned)) : Map.of();
        consumer.assign(assigned);
        long[] begins = new long[partitions.length];
        for (int i = 0; i < begins.length; i++) {
            OffsetAndMetadata one = committed.get(assigned.get(i));
            begins[i] = one == null ? 0 : one.offset();
            consumer.seek(assigned.get(i), begins[i]);
        }
        consumer.endOffsets(assigned);
        return begins;
    }

    /** Records that come within the time: count, timestamps, partitions, offsets, lengths and bytes of values. */
    public byte[] poll(long waitMs) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(waitMs));
        int size = 4;
        for (ConsumerRecord<byte[], byte[]> one : records) {
            size += 24 + one.value().length;
        }
        ByteBuffer to = Frames.make(size).putInt(records.count());
        records.forEach(one -> to.putLong(one.timestamp()));
        records.forEach(one -> to.putInt(one.partition()));
        records.forEach(one -> to.putLong(one.offset()));
        records.forEach(one -> to.putInt(one.value().length));
        records.forEach(one -> to.put(one.value()));
        return to.array();
    }

    /** Commits that a partition is read up to and with an offset: one that does not wait would leave with the next poll. */
    public void commit(int partition, long offset) {
        consumer.commitSync(Map.of(new TopicPartition(topic, partition), new OffsetAndMetadata(offset + 1)));
    }

    /** Gives everything back. */
    @Override
    public void close() {
        consumer.close();
    }
}
