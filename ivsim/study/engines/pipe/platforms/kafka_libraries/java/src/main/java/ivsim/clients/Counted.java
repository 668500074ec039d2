package ivsim.clients;

import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** What a producer has counted. */
public final class Counted {
    private Counted() {
    }

    /** Bytes of its requests, and records. */
    public static double[] of(KafkaProducer<?, ?> producer) {
        return new double[] {metric(producer, "outgoing-byte-total"), metric(producer, "record-send-total")};
    }

    private static double metric(KafkaProducer<?, ?> producer, String name) {
        for (Map.Entry<MetricName, ? extends Metric> one : producer.metrics().entrySet()) {
            if (one.getKey().group().equals("producer-metrics") && one.getKey().name().equals(name)) {
                return (Double) one.getValue().metricValue();
            }
        }
        throw new IllegalStateException("the producer counts no " + name);
    }
}
