package ivsim.twin;

import static ivsim.twin.SequenceBits.WINDOW;
import static ivsim.twin.SequenceBits.WORDS;

import java.nio.ByteBuffer;

/**
 * What one epoch of a vehicle has sent, in bounded space: counts, and which sequences came at its two ends.
 *
 * <p>The problem is to tell a repeated message from a late one without keeping every sequence, and to get the same
 * answer however Spark cuts the records into pieces before it merges them. A piece is folded without knowing what came
 * before it. So it keeps two windows of bits: the {@code WINDOW} sequences up to its greatest, against which what
 * comes <em>after</em> it is compared, and the {@code WINDOW} sequences from its least, for what came <em>before</em>
 * it. Between the windows only the count of distinct sequences is known, and it is enough: as long as no record comes
 * a window or more behind the greatest before it, two consecutive pieces share sequences only where the upper window
 * of the first meets the lower window of the second. Hence |A and B| is a count of common bits, and
 * |A or B| = |A| + |B| - |A and B| is exact.
 *
 * <p>Once a record does come that late, no bounded state can tell whether it is new in a way that does not depend on
 * the cuts. Then the epoch is given up as a whole and for good. Whether that happens depends on the order of records
 * alone: "some record is at or below the greatest before it less WINDOW" holds for A then B when it holds for A, for B,
 * or for B's least against A's greatest.
 */
final class EpochCounts {
    private static final int DENSE_LOW = 1;
    private static final int DENSE_HIGH = 2;
    private static final int GIVEN_UP = 4;

    final long epoch;
    long records;
    long bytes;
    /** Distinct sequences; 0 and without meaning once the epoch is given up. */
    long distinct;
    long least;
    long greatest;
    boolean givenUp;

    // The sequences that came of least..least+WINDOW-1 and of greatest-WINDOW+1..greatest; every other bit is 0.
    // Null stands for "each of them, from least to greatest", which is most of the time.
    private long[] low;
    private long[] high;

    EpochCounts(long epoch) {
        this.epoch = epoch;
    }

    /** Take a record that came after all the others. */
    void add(long sequence, long payloadBytes) {
        records++;
        bytes += payloadBytes;
        if (records == 1) {
            least = sequence;
            greatest = sequence;
            distinct = 1;
        } else if (givenUp || sequence <= greatest - WINDOW) {
            giveUp();
            least = Math.min(least, sequence);
            greatest = Math.max(greatest, sequence);
        } else if (low == null && high == null && sequence == greatest + 1) {
            greatest = sequence;
            distinct++;
        } else {
            place(sequence);
        }
    }

    private void place(long sequence) {
        if (sequence >= least && sequence <= greatest && (high == null || SequenceBits.has(high, sequence))) {
            return;
        }
        spread();
        distinct++;
        if (sequence > greatest) {
            SequenceBits.fill(high, greatest + 1, sequence, false);
            greatest = sequence;
        } else if (sequence < least) {
            SequenceBits.fill(low, sequence, least - 1, false);
            least = sequence;
        }
        SequenceBits.set(high, sequence);
        if (sequence - least < WINDOW) {
            SequenceBits.set(low, sequence);
        }
    }

    /** Take a piece whose records all came after those of this one. */
    void append(EpochCounts later) {
        boolean tooLate = givenUp || later.givenUp || later.least <= greatest - WINDOW;
        long newLeast = Math.min(least, later.least);
        long newGreatest = Math.max(greatest, later.greatest);
        if (tooLate) {
            giveUp();
        } else {
            spread();
            later.spread();
            long from = Math.max(least, later.least);
            long to = Math.min(greatest, later.greatest);
            distinct += later.distinct - SequenceBits.inBoth(high, later.low, from, to);
            long[] upper = later.high.clone();
            SequenceBits.fill(high, greatest + 1, newGreatest, false);
            SequenceBits.fill(upper, later.greatest + 1, newGreatest, false);
            long[] lower = later.low.clone();
            SequenceBits.fill(low, newLeast, least - 1, false);
            SequenceBits.fill(lower, newLeast, later.least - 1, false);
            for (int i = 0; i < WORDS; i++) {
                high[i] |= upper[i];
                low[i] |= lower[i];
            }
        }
        records += later.records;
        bytes += later.bytes;
        least = newLeast;
        greatest = newGreatest;
    }

    private void giveUp() {
        givenUp = true;
        distinct = 0;
        low = null;
        high = null;
    }

    /** Write out the bits of windows in which nothing is missing. */
    private void spread() {
        if (low == null) {
            low = new long[WORDS];
            SequenceBits.fill(low, least, lastOfLow(), true);
        }
        if (high == null) {
            high = new long[WORDS];
            SequenceBits.fill(high, firstOfHigh(), greatest, true);
        }
    }

    private long lastOfLow() {
        return Math.min(greatest, least + WINDOW - 1);
    }

    private long firstOfHigh() {
        return Math.max(least, greatest - WINDOW + 1);
    }

    /** Sequences from 1 to the greatest that never came. */
    long gaps() {
        return greatest - distinct;
    }

    /** Payload bytes of the distinct messages: a repeated one is taken to be as long as the epoch's others. */
    long distinctBytes() {
        return bytes / records * distinct + bytes % records * distinct / records;
    }

    /** Return the greatest number of bytes that {@link #write} takes. */
    static int maxBytes() {
        return 6 * Long.BYTES + 1 + 2 * WORDS * Long.BYTES;
    }

    void write(ByteBuffer out) {
        boolean denseLow = low == null || SequenceBits.count(low) == lastOfLow() - least + 1;
        boolean denseHigh = high == null || SequenceBits.count(high) == greatest - firstOfHigh() + 1;
        out.putLong(epoch).putLong(records).putLong(bytes).putLong(distinct).putLong(least).putLong(greatest);
        out.put((byte) ((denseLow ? DENSE_LOW : 0) | (denseHigh ? DENSE_HIGH : 0) | (givenUp ? GIVEN_UP : 0)));
        write(out, denseLow ? null : low);
        write(out, denseHigh ? null : high);
    }

    private static void write(ByteBuffer out, long[] bits) {
        if (bits != null) {
            out.asLongBuffer().put(bits);
            out.position(out.position() + WORDS * Long.BYTES);
        }
    }

    static EpochCounts read(ByteBuffer in) {
        EpochCounts counts = new EpochCounts(in.getLong());
        counts.records = in.getLong();
        counts.bytes = in.getLong();
        counts.distinct = in.getLong();
        counts.least = in.getLong();
        counts.greatest = in.getLong();
        int flags = in.get();
        counts.givenUp = (flags & GIVEN_UP) != 0;
        counts.low = readBits(in, (flags & DENSE_LOW) != 0);
        counts.high = readBits(in, (flags & DENSE_HIGH) != 0);
        return counts;
    }

    private static long[] readBits(ByteBuffer in, boolean dense) {
        if (dense) {
            return null;
        }
        long[] bits = new long[WORDS];
        in.asLongBuffer().get(bits);
        in.position(in.position() + WORDS * Long.BYTES);
        return bits;
    }
}
