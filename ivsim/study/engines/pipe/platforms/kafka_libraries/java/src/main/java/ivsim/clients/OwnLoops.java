package ivsim.clients;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Producing and consuming by Java alone: no bridge, nothing crosses a process while the clock runs. */
final class OwnLoops {
    private OwnLoops() {
    }

    /** Sends a record for each key, values in turn, and waits for every answer; nanoseconds. */
    static long produce(String properties, String topic, byte[][] keys, byte[][] values) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(Frames.properties(properties))) {
            producer.partitionsFor(topic);
            Future<?>[] answers = new Future<?>[keys.length];
            long began = System.nanoTime();
            for (int i = 0; i < keys.length; i++) {
                answers[i] = producer.send(new ProducerRecord<>(topic, 0, keys[i], values[i % values.length]));
            }
            producer.flush();
            for (Future<?> one : answers) {
                one.get();
            }
            return System.nanoTime() - began;
        }
    }

    /** Reads so many records from the beginning of partition 0, key and value; nanoseconds from the assignment. */
    static long consume(String properties, String topic, int count, long waitMs, long mostMs) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Frames.properties(properties))) {
            List<TopicPartition> assigned = List.of(new TopicPartition(topic, 0));
            long began = System.nanoTime();
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            int came = 0;
            long bytes = 0;
            while (came < count && System.nanoTime() - began < mostMs * 1_000_000) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(waitMs))) {
                    bytes += one.key().length + one.value().length;
                    came++;
                }
            }
            long spent = System.nanoTime() - began;
            if (came < count) {
                throw new IllegalStateException(came + " of " + count + " records, " + bytes + " B");
            }
            return spent;
        }
    }
}
