// The fold of one vehicle's messages into its twin: a user-defined aggregate, because a real-time query takes no
// Python function. Compiled at start by the Janino compiler that Spark carries: Java 5 syntax, no generics, no lambdas.
package ivsim.twin;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.expressions.Aggregator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

public class TwinFold extends Aggregator {

    // Beyond this many separate gaps the oldest is given up: its sequences stay gaps for good.
    static final int MAX_RANGES = 4096;
    static final int MAX_EPOCHS = 64;
    static final long NONE = Long.MIN_VALUE;
    static final int FORM = 2;

    // The twin of one vehicle. An epoch knows its greatest sequence and the ranges missing below it, so that
    // "seen before" is exact without keeping every sequence.
    static class Twin {
        long messages, duplicates, givenUp, payloadBytes;
        long firstReceived = Long.MAX_VALUE, lastReceived = Long.MIN_VALUE;
        // The newest status' sampling stamp, and what the twin held at its last update: its newest stamp, its counts.
        long sampled = NONE, sampledBefore = NONE, receivedBefore, gapsBefore;
        long offset = -1;
        int epochs;
        long[] epoch = new long[1], greatest = new long[1];
        long[][] ranges = new long[1][];
        int[] used = new int[1];
        String head = "";
        byte[] payload = new byte[0];

        int indexOf(long wanted) {
            for (int i = 0; i < epochs; i++) if (epoch[i] == wanted) return i;
            return -1;
        }

        int newest() {
            int best = 0;
            for (int i = 1; i < epochs; i++) if (epoch[i] > epoch[best]) best = i;
            return best;
        }

        int add(long value) {
            if (epochs == MAX_EPOCHS) drop(oldest());
            if (epochs == epoch.length) {
                int n = 2 * epochs;
                long[] e = new long[n]; System.arraycopy(epoch, 0, e, 0, epochs); epoch = e;
                long[] g = new long[n]; System.arraycopy(greatest, 0, g, 0, epochs); greatest = g;
                long[][] r = new long[n][]; System.arraycopy(ranges, 0, r, 0, epochs); ranges = r;
                int[] u = new int[n]; System.arraycopy(used, 0, u, 0, epochs); used = u;
            }
            epoch[epochs] = value; greatest[epochs] = 0; ranges[epochs] = new long[2]; used[epochs] = 0;
            return epochs++;
        }

        int oldest() {
            int best = 0;
            for (int i = 1; i < epochs; i++) if (epoch[i] < epoch[best]) best = i;
            return best;
        }

        void drop(int i) {
            for (int k = 0; k < used[i]; k += 2) givenUp += ranges[i][k + 1] - ranges[i][k] + 1;
            epochs--;
            epoch[i] = epoch[epochs]; greatest[i] = greatest[epochs]; ranges[i] = ranges[epochs]; used[i] = used[epochs];
        }

        long gaps() {
            long sum = givenUp;
            for (int i = 0; i < epochs; i++)
                for (int k = 0; k < used[i]; k += 2) sum += ranges[i][k + 1] - ranges[i][k] + 1;
            return sum;
        }

        // Count one message; true when it is newer than all before it.
        boolean count(long e, long sequence, long received, int bytes) {
            messages++;
            long before = duplicates;
            boolean newer = place(e, sequence);
            if (duplicates == before) payloadBytes += bytes;
            if (received < firstReceived) firstReceived = received;
            if (received > lastReceived) lastReceived = received;
            return newer;
        }

        boolean place(long e, long sequence) {
            boolean newEpoch = epochs == 0 || e > epoch[newest()];
            int i = indexOf(e);
            if (i < 0) {
                if (epochs == MAX_EPOCHS && e < epoch[oldest()]) { duplicates++; return false; }
                i = add(e);
            }
            if (sequence > greatest[i]) {
                if (sequence > greatest[i] + 1) insert(i, used[i], greatest[i] + 1, sequence - 1);
                greatest[i] = sequence;
                return newEpoch || i == newest();
            }
            if (!fill(i, sequence)) duplicates++;
            return false;
        }

        void insert(int i, int at, long low, long high) {
            if (used[i] >= 2 * MAX_RANGES) {
                givenUp += ranges[i][1] - ranges[i][0] + 1;
                System.arraycopy(ranges[i], 2, ranges[i], 0, used[i] - 2);
                used[i] -= 2; at = Math.max(0, at - 2);
            }
            if (used[i] + 2 > ranges[i].length) {
                long[] r = new long[2 * ranges[i].length];
                System.arraycopy(ranges[i], 0, r, 0, used[i]); ranges[i] = r;
            }
            System.arraycopy(ranges[i], at, ranges[i], at + 2, used[i] - at);
            ranges[i][at] = low; ranges[i][at + 1] = high; used[i] += 2;
        }

        // A late message closes its place in a gap; false when the place was closed before.
        boolean fill(int i, long s) {
            long[] r = ranges[i];
            int low = 0, high = used[i] / 2 - 1;
            while (low <= high) {
                int mid = (low + high) / 2;
                if (s < r[2 * mid]) high = mid - 1;
                else if (s > r[2 * mid + 1]) low = mid + 1;
                else { close(i, 2 * mid, s); return true; }
            }
            return false;
        }

        void close(int i, int k, long s) {
            long[] r = ranges[i];
            if (r[k] == r[k + 1]) {
                System.arraycopy(r, k + 2, r, k, used[i] - k - 2); used[i] -= 2;
            } else if (s == r[k]) r[k]++;
            else if (s == r[k + 1]) r[k + 1]--;
            else { long top = r[k + 1]; r[k + 1] = s - 1; insert(i, k + 2, s + 1, top); }
        }

        byte[] bytes() throws IOException {
            ByteArrayOutputStream memory = new ByteArrayOutputStream(payload.length + 256);
            DataOutputStream out = new DataOutputStream(memory);
            out.writeByte(FORM);
            out.writeLong(messages); out.writeLong(duplicates); out.writeLong(givenUp); out.writeLong(payloadBytes);
            out.writeLong(firstReceived); out.writeLong(lastReceived);
            out.writeLong(sampled); out.writeLong(sampledBefore); out.writeLong(receivedBefore); out.writeLong(gapsBefore);
            out.writeLong(offset);
            out.writeInt(epochs);
            for (int i = 0; i < epochs; i++) {
                out.writeLong(epoch[i]); out.writeLong(greatest[i]); out.writeInt(used[i]);
                for (int k = 0; k < used[i]; k++) out.writeLong(ranges[i][k]);
            }
            out.writeUTF(head);
            out.writeInt(payload.length); out.write(payload, 0, payload.length);
            return memory.toByteArray();
        }

        static Twin of(byte[] bytes) throws IOException {
            Twin t = new Twin();
            if (bytes.length == 0) return t;
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            if (in.readByte() != FORM) throw new IOException("form");
            t.messages = in.readLong(); t.duplicates = in.readLong(); t.givenUp = in.readLong(); t.payloadBytes = in.readLong();
            t.firstReceived = in.readLong(); t.lastReceived = in.readLong();
            t.sampled = in.readLong(); t.sampledBefore = in.readLong(); t.receivedBefore = in.readLong(); t.gapsBefore = in.readLong();
            t.offset = in.readLong();
            int n = in.readInt();
            t.epoch = new long[Math.max(1, n)]; t.greatest = new long[Math.max(1, n)];
            t.ranges = new long[Math.max(1, n)][]; t.used = new int[Math.max(1, n)];
            t.epochs = n;
            for (int i = 0; i < n; i++) {
                t.epoch[i] = in.readLong(); t.greatest[i] = in.readLong(); t.used[i] = in.readInt();
                t.ranges[i] = new long[Math.max(2, t.used[i])];
                for (int k = 0; k < t.used[i]; k++) t.ranges[i][k] = in.readLong();
            }
            t.head = in.readUTF();
            t.payload = new byte[in.readInt()]; in.readFully(t.payload);
            return t;
        }

        boolean has(int i, long s) {
            if (s > greatest[i]) return false;
            for (int k = 0; k < used[i]; k += 2) if (s >= ranges[i][k] && s <= ranges[i][k + 1]) return false;
            return true;
        }
    }

    public Object zero() { return new byte[0]; }

    // Input: epoch, sequence, received_at_ns, sampled_at_ns or null, offset, head (the headers, one string), payload.
    public Object reduce(Object buffer, Object input) {
        try {
            Row row = (Row) input;
            Twin t = Twin.of((byte[]) buffer);
            byte[] payload = (byte[]) row.get(6);
            t.offset = Math.max(t.offset, row.getLong(4));
            if (t.count(row.getLong(0), row.getLong(1), row.getLong(2), payload.length)) {
                t.sampled = row.isNullAt(3) ? NONE : row.getLong(3);
                t.head = row.getString(5);
                t.payload = payload;
            }
            return t.bytes();
        } catch (IOException error) {
            throw new IllegalStateException("twin state of a foreign form", error);
        }
    }

    // Two folds of disjoint sets of records. What both have seen is a duplicate once more.
    public Object merge(Object left, Object right) {
        byte[] a = (byte[]) left, b = (byte[]) right;
        if (a.length == 0) return b;
        if (b.length == 0) return a;
        try {
            return union(Twin.of(a), Twin.of(b)).bytes();
        } catch (IOException error) {
            throw new IllegalStateException("twin state of a foreign form", error);
        }
    }

    static Twin union(Twin a, Twin b) {
        int x = a.newest(), y = b.newest();
        boolean newer = b.epoch[y] > a.epoch[x] || (b.epoch[y] == a.epoch[x] && b.greatest[y] > a.greatest[x]);
        long messages = a.messages + b.messages, duplicates = a.duplicates + b.duplicates;
        long first = Math.min(a.firstReceived, b.firstReceived), last = Math.max(a.lastReceived, b.lastReceived);
        // Kafka's offsets tell the twin as it was from the records that are new; it counts as it was last seen.
        Twin before = a.offset <= b.offset ? a : b;
        long sampledBefore = before.sampled, receivedBefore = before.messages - before.duplicates, gapsBefore = before.gaps();
        long both = 0, distinct = b.messages - b.duplicates;
        for (int i = 0; i < b.epochs; i++) both += join(a, b, i);
        duplicates += both;
        // Exact for a single message; of many, those seen before are taken to be as long as the rest.
        a.payloadBytes += distinct == 0 ? 0 : b.payloadBytes * (distinct - both) / distinct;
        a.messages = messages; a.duplicates = duplicates; a.givenUp += b.givenUp;
        a.firstReceived = first; a.lastReceived = last;
        a.sampledBefore = sampledBefore; a.receivedBefore = receivedBefore; a.gapsBefore = gapsBefore;
        a.offset = Math.max(a.offset, b.offset);
        if (newer) { a.head = b.head; a.payload = b.payload; a.sampled = b.sampled; }
        return a;
    }

    // Take the sequences of b's epoch i into a; count those that a had seen.
    static long join(Twin a, Twin b, int i) {
        int at = a.indexOf(b.epoch[i]);
        if (at < 0) at = a.add(b.epoch[i]);
        long both = 0, s = 1;
        for (int k = 0; k <= b.used[i]; k += 2) {
            long end = k < b.used[i] ? b.ranges[i][k] - 1 : b.greatest[i];
            both += take(a, at, s, end);
            if (k < b.used[i]) s = b.ranges[i][k + 1] + 1;
        }
        return both;
    }

    // Take the run of sequences low..high into a's epoch; the count of those that a had seen.
    static long take(Twin a, int at, long low, long high) {
        if (low > high) return 0;
        long fresh = 0;
        if (high > a.greatest[at]) {
            long from = Math.max(low, a.greatest[at] + 1);
            if (from > a.greatest[at] + 1) a.insert(at, a.used[at], a.greatest[at] + 1, from - 1);
            fresh += high - from + 1;
            a.greatest[at] = high;
        }
        for (int k = 0; k < a.used[at];) {
            long l = a.ranges[at][k], h = a.ranges[at][k + 1];
            long x = Math.max(l, low), y = Math.min(h, high);
            if (x > y) { k += 2; continue; }
            fresh += y - x + 1;
            System.arraycopy(a.ranges[at], k + 2, a.ranges[at], k, a.used[at] - k - 2); a.used[at] -= 2;
            if (y < h) a.insert(at, k, y + 1, h);
            if (x > l) { a.insert(at, k, l, x - 1); k += 2; }
            if (y < h) k += 2;
        }
        return (high - low + 1) - fresh;
    }

    public Object finish(Object buffer) {
        try {
            Twin t = Twin.of((byte[]) buffer);
            return RowFactory.create(new Object[] {
                t.payload, t.head, Long.valueOf(t.messages), Long.valueOf(t.duplicates), Long.valueOf(t.gaps()),
                Long.valueOf(t.firstReceived), Long.valueOf(t.lastReceived), Long.valueOf(t.payloadBytes),
                t.sampledBefore == NONE ? null : Long.valueOf(t.sampledBefore), Long.valueOf(t.receivedBefore),
                Long.valueOf(t.gapsBefore)});
        } catch (IOException error) {
            throw new IllegalStateException("twin state of a foreign form", error);
        }
    }

    public Encoder bufferEncoder() { return Encoders.BINARY(); }

    public Encoder outputEncoder() {
        return Encoders.row((StructType) DataType.fromDDL("payload binary, head string, messages bigint, duplicates bigint,"
            + " gaps bigint, first_received_at_ns bigint, last_received_at_ns bigint, payload_bytes bigint,"
            + " sampled_before_ns bigint, received_before bigint, gaps_before bigint"));
    }
}
