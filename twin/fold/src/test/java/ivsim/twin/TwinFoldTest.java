package ivsim.twin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

class TwinFoldTest {
    private final TwinFold fold = new TwinFold();

    private static InternalRow row(long sequence, Long sampled, String head, String payload) {
        return new GenericInternalRow(new Object[] {
            1L, sequence, 50 + sequence, sampled, 0L, sequence, null, UTF8String.fromString(head), payload.getBytes()
        });
    }

    @Test
    void rowsGoInAndARowComesOut() {
        byte[] state = fold.update(fold.newAggregationState(), row(1, 5L, "first", "a"));
        byte[] piece = fold.update(fold.newAggregationState(), row(3, null, "höchste", "bc"));
        InternalRow twin = fold.produceResult(fold.merge(state, piece));
        assertArrayEquals("bc".getBytes(), twin.getBinary(0));
        assertEquals("höchste", twin.getUTF8String(1).toString());
        long[] numbers = new long[7];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = twin.getLong(2 + i);
        }
        assertArrayEquals(new long[] {2, 0, 1, 0, 51, 53, 3}, numbers);
        assertEquals(5, twin.getLong(9));
        assertEquals(1, twin.getLong(10));
        assertEquals(0, twin.getLong(11));
        assertTrue(fold.produceResult(piece).isNullAt(9));
    }

    @Test
    void anotherNumberOfArgumentsIsRefused() {
        String words = assertThrows(UnsupportedOperationException.class, () -> fold.bind(new StructType()))
                .getMessage();
        assertEquals("twin_fold takes 9 arguments, not 0", words);
        assertEquals(9, fold.inputTypes().length);
    }

    @Test
    void theCatalogHasTheOneFunction() throws NoSuchFunctionException {
        FoldCatalog catalog = new FoldCatalog();
        catalog.initialize("ivsim", new CaseInsensitiveStringMap(Map.of()));
        assertEquals("ivsim", catalog.name());
        Identifier[] functions = catalog.listFunctions(new String[0]);
        assertEquals(1, functions.length);
        assertInstanceOf(TwinFold.class, catalog.loadFunction(functions[0]));
        Identifier other = Identifier.of(new String[0], "twin_unfold");
        assertThrows(NoSuchFunctionException.class, () -> catalog.loadFunction(other));
    }
}
