package ivsim.twin;

import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's way to functions from a jar: {@code spark.sql.catalog.ivsim} names this class, SQL says ivsim.twin_fold. */
public final class FoldCatalog implements FunctionCatalog {
    private String name;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return namespace.length == 0
                ? new Identifier[] {Identifier.of(namespace, TwinFold.NAME)}
                : new Identifier[0];
    }

    @Override
    public UnboundFunction loadFunction(Identifier wanted) throws NoSuchFunctionException {
        if (wanted.namespace().length == 0 && wanted.name().equals(TwinFold.NAME)) {
            return new TwinFold();
        }
        throw new NoSuchFunctionException(wanted);
    }
}
