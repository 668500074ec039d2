package ivsim.clients;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A producer that takes many records by one call, and gives many answers by one. */
public final class FrameSender implements AutoCloseable {
    private record Answer(long timestamp, String problem) {
    }

    private final String topic;
    private final KafkaProducer<byte[], byte[]> producer;
    private List<Answer> answers = new ArrayList<>();

    /** Opens a producer, and waits for the topic's metadata. */
    public FrameSender(String properties, String topic) {
        this.topic = topic;
        producer = new KafkaProducer<>(Frames.properties(properties));
        producer.partitionsFor(topic);
    }

    /** Sends the records of a frame: count, timestamps, partitions, lengths of keys and values, bytes. */
    public void send(byte[] frame) {
        ByteBuffer from = Frames.read(frame);
        int count = from.getInt();
        long[] timestamps = Frames.longs(from, count);
        int[] partitions = Frames.ints(from, count);
        int[] keys = Frames.ints(from, count);
        int[] values = Frames.ints(from, count);
        for (int i = 0; i < count; i++) {
            byte[] key = Frames.bytes(from, keys[i]);
            byte[] value = Frames.bytes(from, values[i]);
            Integer partition = partitions[i] < 0 ? null : partitions[i];
            long timestamp = timestamps[i];
            producer.send(new ProducerRecord<>(topic, partition, timestamp, key, value),
                    (metadata, error) -> answer(timestamp, error));
        }
    }

    private synchronized void answer(long timestamp, Exception error) {
        answers.add(new Answer(timestamp, error == null ? "" : error.toString()));
        if (answers.size() == 1) {
            notifyAll();
        }
    }

    /** Answers that are there, or come within the time: count, timestamps, lengths of problems, problems. */
    public byte[] answers(long waitMs) throws InterruptedException {
        List<Answer> found;
        synchronized (this) {
            if (answers.isEmpty() && waitMs > 0) {
                wait(waitMs);
            }
            found = answers;
            answers = new ArrayList<>();
        }
        int size = 4;
        List<byte[]> problems = new ArrayList<>(found.size());
        for (Answer one : found) {
            byte[] problem = one.problem().getBytes(StandardCharsets.UTF_8);
            problems.add(problem);
            size += 12 + problem.length;
        }
        ByteBuffer to = Frames.make(size).putInt(found.size());
        found.forEach(one -> to.putLong(one.timestamp()));
        problems.forEach(one -> to.putInt(one.length));
        problems.forEach(to::put);
        return to.array();
    }

    /** Waits for the answers to all that was sent. */
    public void flush() {
        producer.flush();
    }

    /** Bytes sent, and records. */
    public double[] counted() {
        return Counted.of(producer);
    }

    /** Forgets what is still waiting. */
    @Override
    public void close() {
        producer.close(Duration.ZERO);
    }
}
