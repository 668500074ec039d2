package ivsim.twin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvFileSource;

/** The table that tests/twin/test_fold_cases.py holds the Python reference to. */
class FoldCasesTest {
    private static final int CUTS = 40;

    @ParameterizedTest(name = "{0}")
    @CsvFileSource(resources = "/fold_cases.csv", numLinesToSkip = 1)
    void foldsAndMergesToTheSame(
            String name,
            String records,
            long messages,
            long duplicates,
            long gaps,
            long givenUp,
            long payloadBytes,
            long epoch,
            long sequence) {
        List<Message> stream = Streams.parse(records);
        Twin twin = Streams.fold(stream);
        assertEquals(messages, twin.messages, "messages");
        assertEquals(duplicates, twin.duplicates(), "duplicates");
        assertEquals(gaps, twin.gaps(), "gaps");
        assertEquals(givenUp, twin.givenUp(), "given up");
        assertEquals(payloadBytes, twin.payloadBytes(), "payload bytes");
        assertEquals(epoch + "/" + sequence, new String(twin.head, StandardCharsets.US_ASCII));
        assertEquals(1, twin.firstReceived);
        assertEquals(messages, twin.lastReceived);
        byte[] wanted = Streams.comparable(twin);
        Random random = new Random(11);
        for (int i = 0; i < CUTS; i++) {
            int cut = stream.size() <= CUTS ? i % stream.size() : random.nextInt(stream.size());
            Twin left = Streams.fold(stream.subList(0, cut));
            Twin right = Streams.fold(stream.subList(cut, stream.size()));
            assertArrayEquals(wanted, Streams.comparable(Streams.merged(left, right)), "cut at " + cut);
            assertArrayEquals(wanted, Streams.comparable(Streams.merged(right, left)), "sides at " + cut);
        }
    }
}
