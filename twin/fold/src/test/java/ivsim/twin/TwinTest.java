package ivsim.twin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;
import org.junit.jupiter.api.Test;

class TwinTest {
    private static final int MOST_BYTES = 8 * (2 * 512 + 49) + 120;

    /** Any way to cut a stream into pieces and to merge neighbours gives what folding it whole gives. */
    @RepeatedTest(400)
    void everyTreeOfMergesAgrees(RepetitionInfo repetition) {
        Random random = new Random(repetition.getCurrentRepetition());
        List<Message> stream = randomStream(random);
        Twin whole = Streams.fold(stream);
        assertArrayEquals(Streams.comparable(whole), Streams.comparable(tree(stream, random)));
    }

    private static List<Message> randomStream(Random random) {
        long[] strides = {1, 2, 60, 1_000, SequenceBits.WINDOW - 1, SequenceBits.WINDOW, SequenceBits.WINDOW + 1};
        int epochs = random.nextInt(4) == 0 ? 12 : 2;
        List<Message> stream = new ArrayList<>();
        long at = 1 + random.nextInt(5);
        int length = 1 + random.nextInt(200);
        for (int i = 0; i < length; i++) {
            long stride = strides[random.nextInt(random.nextInt(3) == 0 ? strides.length : 3)];
            long sequence = Math.max(1, random.nextInt(3) == 0 ? at - stride : at);
            at = Math.max(at, sequence + (random.nextInt(4) == 0 ? stride : 1));
            stream.add(Streams.message(random.nextInt(epochs), sequence, i, random.nextInt(300)));
        }
        return stream;
    }

    private static Twin tree(List<Message> stream, Random random) {
        if (stream.size() < 2 || random.nextInt(4) == 0) {
            return Streams.fold(stream);
        }
        int cut = random.nextInt(stream.size());
        Twin left = tree(stream.subList(0, cut), random);
        Twin right = tree(stream.subList(cut, stream.size()), random);
        return random.nextBoolean() ? Streams.merged(left, right) : Streams.merged(right, left);
    }

    @Test
    void theStateIsBounded() {
        Random random = new Random(5);
        Twin twin = new Twin();
        int most = 0;
        long[] next = new long[20];
        for (int i = 0; i < 200_000; i++) {
            int epoch = Math.min(19, i / 10_000 + random.nextInt(3));
            next[epoch] += 1 + random.nextInt(3);
            twin.add(Streams.message(epoch, next[epoch], i, 10));
            if (i % 997 == 0) {
                most = Math.max(most, twin.bytes().length);
            }
        }
        assertTrue(most <= MOST_BYTES, most + " bytes");
        assertTrue(most > 4_000, "the windows were full of gaps: " + most + " bytes");
    }

    @Test
    void aFleetWithoutLossKeepsNoBits() {
        Twin twin = Streams.fold(Streams.parse("1/1..9000"));
        assertEquals(49 + 105 + 100, twin.bytes().length, 20);
    }

    private static Message from(long partition, long offset, long batch, long sequence) {
        return new Message(1, sequence, sequence, 1_000 + sequence, partition, offset, batch, new byte[0], new byte[1]);
    }

    private static Twin of(Message... messages) {
        return Streams.fold(List.of(messages));
    }

    @Test
    void beforeIsTheTwinWithoutTheNewestBatch() {
        Twin state = of(from(0, 10, 1, 1), from(0, 11, 1, 3));
        Twin twin = Streams.merged(of(from(0, 12, 2, 4), from(0, 13, 2, 5)), state);
        assertEquals(1_003, twin.sampledBefore);
        assertEquals(2, twin.receivedBefore);
        assertEquals(1, twin.gapsBefore);
        assertEquals(4, twin.received());
    }

    @Test
    void offsetsOfOtherPartitionsAreNotCompared() {
        Twin state = of(from(0, 1_000, 1, 1), from(0, 1_001, 1, 2));
        Twin twin = Streams.merged(state, of(from(1, 5, 2, 3)));
        assertEquals(2, twin.receivedBefore);
        assertEquals(1_002, twin.sampledBefore);
        Twin inRealTime = of(from(0, 1_000, Twin.NONE, 1), from(0, 1_001, Twin.NONE, 2));
        assertEquals(2, Streams.merged(of(from(1, 5, Twin.NONE, 3)), inRealTime).receivedBefore);
    }

    @Test
    void piecesOfOneBatchHaveTheSameBefore() {
        Twin pieces = Streams.merged(of(from(0, 7, 4, 2)), of(from(1, 3, 4, 3)));
        assertEquals(0, pieces.receivedBefore);
        assertEquals(Twin.NONE, pieces.sampledBefore);
        Twin twin = Streams.merged(of(from(1, 2, 3, 1)), pieces);
        assertEquals(1, twin.receivedBefore);
        assertEquals(1_001, twin.sampledBefore);
        Twin more = Streams.merged(twin, of(from(0, 8, 4, 4)));
        assertEquals(1, more.receivedBefore);
        assertEquals(4, more.received());
    }

    @Test
    void anEmptyPieceChangesNothing() {
        Twin twin = of(from(0, 1, 1, 1));
        assertArrayEquals(twin.bytes(), Streams.merged(twin, new Twin()).bytes());
        assertArrayEquals(twin.bytes(), Streams.merged(new Twin(), twin).bytes());
    }

    @Test
    void aForeignFormIsRefused() {
        byte[] bytes = of(from(0, 1, 1, 1)).bytes();
        bytes[0] = 2;
        assertEquals(
                "twin state of form 2, not 3",
                assertThrows(IllegalStateException.class, () -> Twin.of(bytes)).getMessage());
    }
}
