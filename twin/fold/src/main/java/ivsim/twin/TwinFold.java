package ivsim.twin;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.AggregateFunction;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@link Twin} as an aggregate function of Spark SQL.
 *
 * <p>The state that Spark keeps is the twin's own bytes: Spark writes a state by Java serialisation, which has little to
 * add to an array of bytes.
 */
public final class TwinFold implements UnboundFunction, AggregateFunction<byte[], InternalRow> {
    /** The function's name in {@link FoldCatalog}. */
    public static final String NAME = "twin_fold";

    private static final long serialVersionUID = 1;
    private static final StructType INPUT = (StructType) DataType.fromDDL(
            "epoch bigint, sequence bigint, received_at_ns bigint, sampled_at_ns bigint, partition bigint,"
                    + " offset bigint, batch bigint, head string, payload binary");
    private static final StructType RESULT = (StructType) DataType.fromDDL(
            "payload binary, head string, messages bigint, duplicates bigint, gaps bigint, given_up bigint,"
                    + " first_received_at_ns bigint, last_received_at_ns bigint, payload_bytes bigint,"
                    + " sampled_before_ns bigint, received_before bigint, gaps_before bigint");

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public String description() {
        return NAME + "(" + INPUT.toDDL() + "): the twin of one vehicle";
    }

    @Override
    public BoundFunction bind(StructType given) {
        if (given.size() != INPUT.size()) {
            throw new UnsupportedOperationException(
                    NAME + " takes " + INPUT.size() + " arguments, not " + given.size());
        }
        return this; // Spark casts the arguments to inputTypes, or refuses them
    }

    @Override
    public DataType[] inputTypes() {
        DataType[] types = new DataType[INPUT.size()];
        for (int i = 0; i < types.length; i++) {
            types[i] = INPUT.fields()[i].dataType();
        }
        return types;
    }

    @Override
    public DataType resultType() {
        return RESULT;
    }

    @Override
    public String canonicalName() {
        return "ivsim." + NAME;
    }

    @Override
    public byte[] newAggregationState() {
        return new byte[0];
    }

    @Override
    public byte[] update(byte[] state, InternalRow row) {
        Twin twin = Twin.of(state);
        twin.add(new Message(
                row.getLong(0),
                row.getLong(1),
                row.getLong(2),
                orNone(row, 3),
                row.getLong(4),
                row.getLong(5),
                orNone(row, 6),
                row.getUTF8String(7).getBytes(),
                row.getBinary(8)));
        return twin.bytes();
    }

    private static long orNone(InternalRow row, int at) {
        return row.isNullAt(at) ? Twin.NONE : row.getLong(at);
    }

    @Override
    public byte[] merge(byte[] left, byte[] right) {
        if (left.length == 0 || right.length == 0) {
            return left.length == 0 ? right : left;
        }
        return Twin.merged(Twin.of(left), Twin.of(right)).bytes();
    }

    @Override
    public InternalRow produceResult(byte[] state) {
        Twin twin = Twin.of(state);
        return new GenericInternalRow(new Object[] {
            twin.payload,
            UTF8String.fromBytes(twin.head),
            twin.messages,
            twin.duplicates(),
            twin.gaps(),
            twin.givenUp(),
            twin.firstReceived,
            twin.lastReceived,
            twin.payloadBytes(),
            twin.sampledBefore == Twin.NONE ? null : twin.sampledBefore,
            twin.receivedBefore,
            twin.gapsBefore
        });
    }
}
