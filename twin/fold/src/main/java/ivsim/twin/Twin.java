package ivsim.twin;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The twin of one vehicle as it is kept between messages: its newest status, its counters, and what was counted.
 *
 * <p>The state is bounded: the newest status, and {@link EpochCounts} of the {@link #MAX_EPOCHS} greatest epochs.
 * <b>Guarantee.</b> All counters are exact while no record comes {@code WINDOW} or more sequences behind the greatest
 * of its epoch before it, and while a vehicle has no more than {@code MAX_EPOCHS} epochs. An epoch that breaks the
 * first rule, and the smallest epochs beyond the second, are given up: their records are in {@code messages} and in
 * {@code givenUp} and in nothing else. {@code messages}, {@code givenUp}, the newest status and the stamps are always
 * exact. The result depends on the records and their order alone, never on how they are cut into pieces that are
 * folded apart and merged ({@code fold(A then B) = merge(fold(A), fold(B))}).
 *
 * <p>The one exception says what an update added: {@code sampledBefore}, {@code receivedBefore} and {@code gapsBefore}
 * are the twin as it was before the newest piece.
 */
final class Twin {
    /** Stands for a number that is not known. */
    static final long NONE = Long.MIN_VALUE;

    static final int MAX_EPOCHS = 8;
    private static final byte FORM = 3;
    private static final byte[] EMPTY = {};
    private static final int FIXED_BYTES = 1 + 10 * Long.BYTES + 3 * Integer.BYTES;

    long messages;
    long firstReceived = Long.MAX_VALUE;
    long lastReceived = Long.MIN_VALUE;
    /** When the newest status was sampled. */
    long sampled = NONE;

    byte[] head = EMPTY;
    byte[] payload = EMPTY;

    long sampledBefore = NONE;
    long receivedBefore;
    long gapsBefore;

    // Where the last record came from: tells which of two pieces is the earlier one.
    private long batch = NONE;
    private long partition = NONE;
    private long offset = NONE;

    // By epoch, the smallest first.
    private EpochCounts[] epochs = new EpochCounts[1];
    private int used;

    /** Take a record that came after all the others. */
    void add(Message message) {
        messages++;
        firstReceived = Math.min(firstReceived, message.receivedAtNs());
        lastReceived = Math.max(lastReceived, message.receivedAtNs());
        batch = message.batch();
        partition = message.partition();
        offset = message.offset();
        boolean newer = used == 0
                || message.epoch() > newest().epoch
                || message.epoch() == newest().epoch && message.sequence() > newest().greatest;
        EpochCounts counts = countsOf(message.epoch());
        if (counts != null) {
            counts.add(message.sequence(), message.payload().length);
        }
        if (newer) {
            sampled = message.sampledAtNs();
            head = message.head();
            payload = message.payload();
        }
    }

    /** Return the counts of an epoch, made where there are none; null when the epoch is given up. */
    private EpochCounts countsOf(long epoch) {
        int at = placeOf(epoch);
        if (at < used && epochs[at].epoch == epoch) {
            return epochs[at];
        }
        return insert(at, new EpochCounts(epoch));
    }

    private int placeOf(long epoch) {
        int at = used;
        while (at > 0 && epochs[at - 1].epoch >= epoch) {
            at--;
        }
        return at;
    }

    /** Put counts at their place, at the cost of the smallest epoch where all are taken. */
    private EpochCounts insert(int at, EpochCounts counts) {
        if (used == MAX_EPOCHS) {
            if (at == 0) {
                return null;
            }
            System.arraycopy(epochs, 1, epochs, 0, at - 1);
            epochs[at - 1] = counts;
            return counts;
        }
        if (used == epochs.length) {
            epochs = Arrays.copyOf(epochs, 2 * used);
        }
        System.arraycopy(epochs, at, epochs, at + 1, used - at);
        epochs[at] = counts;
        used++;
        return counts;
    }

    private EpochCounts newest() {
        return epochs[used - 1];
    }

    /** Return both pieces as one. The argument's objects become part of the result. */
    static Twin merged(Twin one, Twin other) {
        if (one.messages == 0 || other.messages == 0) {
            return one.messages == 0 ? other : one;
        }
        boolean oneFirst = one.isBefore(other);
        Twin earlier = oneFirst ? one : other;
        Twin later = oneFirst ? other : one;
        earlier.rememberBefore(later);
        earlier.append(later);
        return earlier;
    }

    /**
     * Tell whether this piece comes before another one; never both, so that a merge does not depend on its sides.
     *
     * <p>Offsets are in order within a partition only. Elsewhere the batch tells; in real time, where there is none, a
     * new record is merged alone with all that came before it.
     */
    private boolean isBefore(Twin other) {
        if (partition == other.partition && offset != other.offset) {
            return offset < other.offset;
        }
        if (batch != other.batch) {
            return batch < other.batch;
        }
        if (batch == NONE && messages != other.messages) {
            return messages > other.messages;
        }
        if (lastReceived != other.lastReceived) {
            return lastReceived < other.lastReceived;
        }
        return partition <= other.partition;
    }

    private void rememberBefore(Twin later) {
        if (batch != NONE && batch == later.batch) {
            // Both are new: what was before them is what was before either.
            if (receivedBefore == 0) {
                sampledBefore = later.sampledBefore;
                receivedBefore = later.receivedBefore;
                gapsBefore = later.gapsBefore;
            }
            return;
        }
        sampledBefore = sampled;
        receivedBefore = received();
        gapsBefore = gaps();
    }

    private void append(Twin later) {
        EpochCounts mine = newest();
        EpochCounts theirs = later.newest();
        if (theirs.epoch > mine.epoch || theirs.epoch == mine.epoch && theirs.greatest > mine.greatest) {
            sampled = later.sampled;
            head = later.head;
            payload = later.payload;
        }
        for (int i = 0; i < later.used; i++) {
            EpochCounts counts = later.epochs[i];
            int at = placeOf(counts.epoch);
            if (at == used || epochs[at].epoch != counts.epoch) {
                insert(at, counts);
            } else if (counts.records == 1) {
                epochs[at].add(counts.least, counts.bytes);
            } else {
                epochs[at].append(counts);
            }
        }
        messages += later.messages;
        firstReceived = Math.min(firstReceived, later.firstReceived);
        lastReceived = Math.max(lastReceived, later.lastReceived);
        batch = later.batch;
        partition = later.partition;
        offset = later.offset;
    }

    /** Distinct messages. */
    long received() {
        long sum = 0;
        for (int i = 0; i < used; i++) {
            sum += epochs[i].distinct;
        }
        return sum;
    }

    /** Records of epochs that are given up. */
    long givenUp() {
        long counted = 0;
        for (int i = 0; i < used; i++) {
            counted += epochs[i].givenUp ? 0 : epochs[i].records;
        }
        return messages - counted;
    }

    /** Records of a message that was there before. */
    long duplicates() {
        return messages - givenUp() - received();
    }

    /** Sequences up to the greatest of their epoch that never came. */
    long gaps() {
        long sum = 0;
        for (int i = 0; i < used; i++) {
            sum += epochs[i].givenUp ? 0 : epochs[i].gaps();
        }
        return sum;
    }

    /** Payload bytes of the distinct messages. */
    long payloadBytes() {
        long sum = 0;
        for (int i = 0; i < used; i++) {
            sum += epochs[i].distinctBytes();
        }
        return sum;
    }

    byte[] bytes() {
        int most = FIXED_BYTES + used * EpochCounts.maxBytes();
        ByteBuffer out = ByteBuffer.allocate(most + head.length + payload.length);
        out.put(FORM);
        out.putLong(messages).putLong(firstReceived).putLong(lastReceived).putLong(sampled);
        out.putLong(sampledBefore).putLong(receivedBefore).putLong(gapsBefore);
        out.putLong(batch).putLong(partition).putLong(offset);
        out.putInt(used);
        for (int i = 0; i < used; i++) {
            epochs[i].write(out);
        }
        out.putInt(head.length).put(head).putInt(payload.length).put(payload);
        return out.position() == out.capacity() ? out.array() : Arrays.copyOf(out.array(), out.position());
    }

    static Twin of(byte[] bytes) {
        Twin twin = new Twin();
        if (bytes.length == 0) {
            return twin;
        }
        ByteBuffer in = ByteBuffer.wrap(bytes);
        byte form = in.get();
        if (form != FORM) {
            throw new IllegalStateException("twin state of form " + form + ", not " + FORM);
        }
        twin.messages = in.getLong();
        twin.firstReceived = in.getLong();
        twin.lastReceived = in.getLong();
        twin.sampled = in.getLong();
        twin.sampledBefore = in.getLong();
        twin.receivedBefore = in.getLong();
        twin.gapsBefore = in.getLong();
        twin.batch = in.getLong();
        twin.partition = in.getLong();
        twin.offset = in.getLong();
        twin.used = in.getInt();
        twin.epochs = new EpochCounts[Math.max(1, twin.used)];
        for (int i = 0; i < twin.used; i++) {
            twin.epochs[i] = EpochCounts.read(in);
        }
        in.get(twin.head = new byte[in.getInt()]);
        in.get(twin.payload = new byte[in.getInt()]);
        return twin;
    }
}
