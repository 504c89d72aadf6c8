import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.WindowFrame;
import org.apache.spark.sql.catalyst.expressions.WindowSpecDefinition;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes a query's optimized plan as JSON, with every field of every node. Janino, which Spark brings for its generated
 * code, compiles this file. `sql.proof.plan_json` reads the result.
 *
 * Catalyst's own toJSON is not exact: it writes null for what it does not know, among that the ANSI mode of a sum or a
 * cast, the values of a long IN list and the relation of a table. This writer names what it does not know "opaque".
 */
public class PlanWriter {
    private static final int CHARACTERS_MAX = 8000000;
    private static final String NUMBERS = " Boolean Byte Short Integer Long Character String ";
    /** Texts that Spark turns into the time at which it reads them; a typed literal does not show in the plan. */
    private static final Pattern MOVING =
        Pattern.compile("(?is)['\"]\\s*(now|today|tomorrow|yesterday)(?!\\w)");
    /** A literal of such a type, whose text may be written with escapes. */
    private static final Pattern TYPED =
        Pattern.compile("(?i)\\b(date|timestamp(_ntz|_ltz)?)\\s*(r?['\"]|/\\*|--)");

    private final boolean readsOnly;
    private final StringBuilder out = new StringBuilder();
    private final TreeSet constants = new TreeSet();

    /** `readsOnly`: of views and of tables of other catalogs, only what they read is written, and their names. */
    private PlanWriter(boolean readsOnly) {
        this.readsOnly = readsOnly;
    }

    /**
     * Plans a text in a clone of the session of this id, which has these settings in addition, as the session's user.
     * Executes nothing. `contexts` are the Spark sessions of the Thrift server, by the handles of its sessions.
     * `onlyAnalyzed`: the plan before it is optimized.
     */
    public static String plan(
        SessionManager sessions, Map contexts, String id, String text, Map settings, Boolean onlyAnalyzed)
        throws Exception {
        SessionHandle handle = handleOf(contexts, id);
        SparkSession clone = sessionOf(contexts.get(handle), id).cloneSession();
        Iterator each = settings.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            String key = (String) entry.getKey();
            String value = (String) entry.getValue();
            if (key.equals("spark.sql.optimizer.excludedRules")) {
                String before = clone.sessionState().conf().getConfString(key, "");
                value = before.isEmpty() ? value : before + "," + value;
            }
            clone.sessionState().conf().setConfString(key, value);
        }
        // The thread is as that of a statement (SparkOperation.withLocalProperties): extensions that filter rows ask
        // for the user. The process's account is the same, because hive.server2.enable.doAs is off.
        Thread thread = Thread.currentThread();
        ClassLoader loader = thread.getContextClassLoader();
        SparkSession.setActiveSession(clone);
        CurrentUserContext.CURRENT_USER().set(sessions.getSession(handle).getUserName());
        thread.setContextClassLoader(clone.sharedState().jarClassLoader());
        try {
            LogicalPlan parsed = clone.sessionState().sqlParser().parsePlan(text);
            LogicalPlan analyzed = clone.sessionState().executePlan(parsed, CommandExecutionMode.SKIP()).analyzed();
            if (onlyAnalyzed.booleanValue()) {
                return new PlanWriter(true).written(text, analyzed, analyzed);
            }
            // Not `optimizedPlan`, which reads cached tables in place of the tables.
            LogicalPlan unread = (LogicalPlan) analyzed.clone().transformUpWithSubqueries(new Unread());
            LogicalPlan optimized = (LogicalPlan) clone.sessionState().optimizer().execute(unread);
            return new PlanWriter(false).written(text, analyzed, optimized);
        } finally {
            thread.setContextClassLoader(loader);
            CurrentUserContext.CURRENT_USER().remove();
            SparkSession.clearActiveSession();
        }
    }

    private static SessionHandle handleOf(Map contexts, String id) {
        Iterator handles = contexts.keySet().iterator();
        while (handles.hasNext()) {
            SessionHandle handle = (SessionHandle) handles.next();
            if (handle.getHandleIdentifier().getPublicId().toString().equals(id)) {
                return handle;
            }
        }
        throw new IllegalArgumentException("Spark has no session " + id + ".");
    }

    private static SparkSession sessionOf(Object context, String id) {
        if (context == null) {
            throw new IllegalArgumentException("Spark has no session " + id + " any more.");
        }
        return context instanceof SQLContext
            ? (SparkSession) ((SQLContext) context).sparkSession()
            : (SparkSession) context;
    }

    private String written(String text, LogicalPlan analyzed, LogicalPlan optimized) {
        moving(text);
        constantsOf(analyzed);
        out.append("{\"output\":[");
        scala.collection.Iterator attributes = analyzed.output().iterator();
        scala.collection.Iterator ids = optimized.output().iterator();
        for (int place = 0; attributes.hasNext(); place++) {
            Attribute attribute = (Attribute) attributes.next();
            out.append(place == 0 ? "[" : ",[");
            string(id(((Attribute) ids.next()).exprId()));
            out.append(',');
            string(attribute.name());
            out.append(',');
            string(attribute.dataType().catalogString());
            out.append(']');
        }
        out.append("],\"constants\":[");
        Iterator names = constants.iterator();
        for (int place = 0; names.hasNext(); place++) {
            out.append(place == 0 ? "" : ",");
            string((String) names.next());
        }
        out.append("],\"root\":");
        value(optimized);
        return out.append('}').toString();
    }

    /**
     * Notes the classes of all expressions that Spark may evaluate while it plans: those without a column. Their
     * values may come from the environment, as the date of today.
     */
    private void constantsOf(TreeNode node) {
        if (node instanceof View && ((View) node).desc().viewText().isDefined()) {
            moving((String) ((View) node).desc().viewText().get());
        }
        if (node instanceof RuntimeReplaceable) {
            constantsOf(((RuntimeReplaceable) node).replacement());
            return;
        }
        if (node instanceof Expression) {
            Expression expression = (Expression) node;
            if (expression.foldable() || expression.children().isEmpty()) {
                constants.add(node.getClass().getName());
            }
        }
        if (node instanceof Literal && ((Literal) node).value() instanceof UTF8String) {
            moving("'" + ((Literal) node).value());
        }
        if (node instanceof PlanExpression) {
            constantsOf((TreeNode) ((PlanExpression) node).plan());
        }
        if (node instanceof QueryPlan) {
            all(((QueryPlan) node).expressions().iterator());
        }
        all(node.children().iterator());
    }

    private void moving(String text) {
        if (MOVING.matcher(text).find() || text.indexOf('\\') >= 0 && TYPED.matcher(text).find()) {
            constants.add("a text such as 'today'");
        }
    }

    private void all(scala.collection.Iterator nodes) {
        while (nodes.hasNext()) {
            constantsOf((TreeNode) nodes.next());
        }
    }

    private void value(Object each) {
        if (out.length() > CHARACTERS_MAX) {
            throw new IllegalStateException("The plan is too long.");
        }
        if (each instanceof scala.Option) {
            each = ((scala.Option) each).isEmpty() ? null : ((scala.Option) each).get();
        }
        if (each == null) {
            out.append("null");
        } else if (each instanceof LogicalRelation) {
            relation((LogicalRelation) each);
        } else if (each instanceof HiveTableRelation) {
            hiveRelation((HiveTableRelation) each);
        } else if (readsOnly && each instanceof View) {
            view((View) each);
        } else if (readsOnly && each instanceof DataSourceV2Relation) {
            tableOfCatalog((DataSourceV2Relation) each);
        } else if (each instanceof DataSourceV2ScanRelation && isUnread((DataSourceV2ScanRelation) each)) {
            scan((DataSourceV2ScanRelation) each);
        } else if (each instanceof TreeNode) {
            product((scala.Product) each);
        } else if (each instanceof scala.collection.Map) {
            scalar("opaque", each.getClass().getName());
        } else if (each instanceof scala.collection.Iterable) {
            list(((scala.collection.Iterable) each).iterator());
        } else {
            atom(each);
        }
    }

    private void atom(Object each) {
        String kind = each.getClass().getSimpleName();
        if (NUMBERS.indexOf(" " + kind + " ") >= 0) {
            scalar(kind, each.toString());
        } else if (each instanceof UTF8String || each instanceof Decimal) {
            scalar(kind, each.toString());
        } else if (each instanceof Double) {
            scalar(kind, Long.toHexString(Double.doubleToRawLongBits(((Double) each).doubleValue())));
        } else if (each instanceof Float) {
            scalar(kind, Integer.toHexString(Float.floatToRawIntBits(((Float) each).floatValue())));
        } else if (each instanceof byte[]) {
            scalar("bytes", new java.math.BigInteger(1, (byte[]) each).toString(16) + "/" + ((byte[]) each).length);
        } else if (each instanceof DataType) {
            scalar("DataType", ((DataType) each).catalogString());
        } else if (each instanceof Class) {
            scalar("Class", ((Class) each).getName());
        } else if (each instanceof ExprId) {
            scalar("ExprId", id((ExprId) each));
        } else if (each instanceof scala.Enumeration.Value) {
            scalar("Enumeration", each.toString());
        } else if (each.getClass().getName().endsWith("$")) {
            scalar("object", each.getClass().getName());
        } else if (each instanceof scala.Product) {
            product((scala.Product) each);
        } else {
            scalar("opaque", each.getClass().getName());
        }
    }

    private void product(scala.Product node) {
        out.append("{\"class\":");
        string(node.getClass().getName());
        if (node instanceof Expression && !(node instanceof WindowSpecDefinition || node instanceof WindowFrame)) {
            out.append(",\"type\":");
            string(((Expression) node).dataType().catalogString());
        }
        if (node instanceof NamedExpression) {
            out.append(",\"id\":");
            string(id(((NamedExpression) node).exprId()));
        }
        out.append(",\"fields\":{");
        if (node instanceof AttributeReference) {
            out.append("\"name\":");
            value(((AttributeReference) node).name());
            out.append("}}");
            return;
        }
        scala.collection.Iterator names = node.productElementNames();
        scala.collection.Iterator values = node.productIterator();
        for (int place = 0; names.hasNext(); place++) {
            out.append(place == 0 ? "" : ",");
            string((String) names.next());
            out.append(':');
            value(values.next());
        }
        out.append("}}");
    }

    private void relation(LogicalRelation node) {
        out.append("{\"class\":");
        string(node.getClass().getName());
        out.append(",\"fields\":{\"output\":");
        value(node.output());
        out.append(",\"streaming\":");
        value(Boolean.valueOf(node.isStreaming()));
        out.append(",\"table\":");
        table(node.catalogTable().isEmpty() ? null : (CatalogTable) node.catalogTable().get());
        out.append(",\"relation\":");
        if (node.relation() instanceof HadoopFsRelation) {
            HadoopFsRelation files = (HadoopFsRelation) node.relation();
            TreeMap options = new TreeMap();
            scala.collection.Iterator entries = files.options().iterator();
            while (entries.hasNext()) {
                scala.Tuple2 entry = (scala.Tuple2) entries.next();
                options.put(entry._1(), entry._2());
            }
            out.append('[');
            boolean isNewest = files.location() instanceof NewestFiles;
            scalar("String", isNewest ? NewestFiles.TITLE : files.location().getClass().getName());
            out.append(',');
            scalar("String", files.fileFormat().getClass().getName());
            out.append(',');
            scalar("String", options.toString());
            out.append(']');
        } else {
            scalar("opaque", node.relation().getClass().getName());
        }
        out.append("}}");
    }

    private static boolean isUnread(DataSourceV2ScanRelation node) {
        return node.relation().table() instanceof UnreadTable;
    }

    private void scan(DataSourceV2ScanRelation node) {
        DataSourceV2Relation relation = node.relation();
        UnreadTable table = (UnreadTable) relation.table();
        out.append("{\"class\":");
        string(node.getClass().getName());
        out.append(",\"fields\":{\"output\":");
        value(node.output());
        out.append(",\"table\":[");
        nameOf(relation);
        out.append(',');
        scalar("String", table.id());
        out.append(',');
        scalar("String", String.valueOf(table.properties().get("location")));
        out.append("],\"relation\":[");
        scalar("String", UnreadTable.TITLE);
        out.append("]}}");
    }

    private void hiveRelation(HiveTableRelation node) {
        out.append("{\"class\":");
        string(node.getClass().getName());
        out.append(",\"fields\":{\"output\":");
        value(node.output());
        out.append(",\"table\":");
        table(node.tableMeta());
        out.append("}}");
    }

    private void view(View node) {
        out.append("{\"class\":");
        string(node.getClass().getName());
        out.append(",\"fields\":{\"child\":");
        value(node.child());
        out.append("}}");
    }

    private void tableOfCatalog(DataSourceV2Relation node) {
        out.append("{\"class\":");
        string(node.getClass().getName());
        out.append(",\"fields\":{\"output\":");
        value(node.output());
        out.append(",\"table\":[");
        if (node.catalog().isDefined() && node.identifier().isDefined()) {
            nameOf(node);
        }
        out.append("]}}");
    }

    private void nameOf(DataSourceV2Relation node) {
        Identifier identifier = (Identifier) node.identifier().get();
        scalar("String", ((CatalogPlugin) node.catalog().get()).name());
        String[] namespace = identifier.namespace();
        for (int place = 0; place < namespace.length; place++) {
            out.append(',');
            scalar("String", namespace[place]);
        }
        out.append(',');
        scalar("String", identifier.name());
    }

    private void table(CatalogTable table) {
        if (table == null) {
            out.append("null");
            return;
        }
        TableIdentifier name = table.identifier();
        out.append('[');
        scalar("String", name.quotedString());
        out.append(',');
        scalar("String", String.valueOf(table.createTime()));
        out.append(',');
        scalar("String", table.storage().locationUri().toString());
        out.append(']');
    }

    private void list(scala.collection.Iterator values) {
        out.append('[');
        for (int place = 0; values.hasNext(); place++) {
            out.append(place == 0 ? "" : ",");
            value(values.next());
        }
        out.append(']');
    }

    private void scalar(String kind, String text) {
        out.append("{\"kind\":");
        string(kind);
        out.append(",\"text\":");
        string(text);
        out.append('}');
    }

    private static String id(ExprId id) {
        return id.id() + " " + id.jvmId();
    }

    private void string(String text) {
        out.append('"');
        for (int place = 0; place < text.length(); place++) {
            char letter = text.charAt(place);
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ' || letter > '~') {
                String digits = Integer.toHexString(letter);
                out.append("\\u").append("0000", 0, 4 - digits.length()).append(digits);
            } else {
                out.append(letter);
            }
        }
        out.append('"');
    }

    /**
     * Puts tables that nothing can be pushed down to in the place of the newest versions of Iceberg's and Delta's tables:
     * conditions stay in the plan, no files are listed, and no counts are taken from metadata. Whatever is not certain
     * to be the newest version of a whole table stays as it is, which the checker refuses.
     */
    private static class Unread extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (node instanceof DataSourceV2Relation) {
                return UnreadTable.isNewest((DataSourceV2Relation) node);
            }
            return node instanceof LogicalRelation && NewestFiles.areOf((LogicalRelation) node);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            if (node instanceof DataSourceV2Relation) {
                DataSourceV2Relation relation = (DataSourceV2Relation) node;
                return relation.copy(
                    new UnreadTable(relation.table()), relation.output(), relation.catalog(), relation.identifier(),
                    relation.options(), relation.timeTravelSpec());
            }
            LogicalRelation relation = (LogicalRelation) node;
            HadoopFsRelation files = (HadoopFsRelation) relation.relation();
            return relation.copy(
                files.copy(
                    new NewestFiles(files.location()), files.partitionSchema(), files.dataSchema(), files.bucketSpec(),
                    files.fileFormat(), files.options(), files.sparkSession()),
                relation.output(), relation.catalogTable(), relation.isStreaming(), relation.stream());
        }
    }

    /** A value that a public or private method without arguments, or a field, of this name has. */
    private static Object valueOf(Object each, String name) throws Exception {
        for (Class type = each.getClass(); type != null; type = type.getSuperclass()) {
            try {
                java.lang.reflect.Method method = type.getDeclaredMethod(name, new Class[0]);
                method.setAccessible(true);
                return method.invoke(each, new Object[0]);
            } catch (NoSuchMethodException missing) {
                // It may be a field, or inherited.
            }
            try {
                java.lang.reflect.Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(each);
            } catch (NoSuchFieldException missing) {
                // It may be inherited.
            }
        }
        throw new NoSuchFieldException(name);
    }

    private static boolean isA(Object each, String className) {
        for (Class type = each.getClass(); type != null; type = type.getSuperclass()) {
            if (type.getName().equals(className)) {
                return true;
            }
        }
        return false;
    }

    /** An Iceberg table of which nothing is read. */
    private static class UnreadTable implements SupportsRead {
        static final String TITLE = "newest snapshot of an Iceberg table";
        private final Table table;

        UnreadTable(Table table) {
            this.table = table;
        }

        /** Not a snapshot, a branch, or a table of metadata; read without options, and without columns of metadata. */
        static boolean isNewest(DataSourceV2Relation node) {
            Table table = node.table();
            if (!table.getClass().getName().equals("org.apache.iceberg.spark.source.SparkTable")
                || node.catalog().isEmpty()
                || node.identifier().isEmpty()
                || node.timeTravelSpec().isDefined()
                || !node.options().isEmpty()
                || node.output().size() != table.columns().length) {
                return false;
            }
            try {
                return valueOf(table, "branch") == null
                    && valueOf(table, "timeTravel") == null
                    && isA(valueOf(table, "table"), "org.apache.iceberg.BaseTable")
                    && table.id() != null;
            } catch (Exception unknown) {
                // Another release of Iceberg.
                return false;
            }
        }

        public String name() {
            return table.name();
        }

        public String id() {
            return table.id();
        }

        public Column[] columns() {
            return table.columns();
        }

        public StructType schema() {
            return table.schema();
        }

        public Map properties() {
            return table.properties();
        }

        public Set capabilities() {
            return java.util.Collections.singleton(TableCapability.BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new UnreadScan(table.schema());
        }
    }

    /** A scan that takes over nothing from the plan. */
    private static class UnreadScan implements ScanBuilder, Scan {
        private final StructType schema;

        UnreadScan(StructType schema) {
            this.schema = schema;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return schema;
        }
    }

    /** The files of the newest version of a Delta table, which are not listed. */
    private static class NewestFiles implements FileIndex {
        static final String TITLE = "newest version of a Delta table";
        private final FileIndex files;

        NewestFiles(FileIndex files) {
            this.files = files;
        }

        /** All files, of no older version. */
        static boolean areOf(LogicalRelation node) {
            if (!(node.relation() instanceof HadoopFsRelation) || node.catalogTable().isEmpty()) {
                return false;
            }
            FileIndex files = ((HadoopFsRelation) node.relation()).location();
            if (!files.getClass().getName().equals("org.apache.spark.sql.delta.files.TahoeLogFileIndex")) {
                return false;
            }
            try {
                return Boolean.FALSE.equals(valueOf(files, "isTimeTravelQuery"))
                    && ((scala.collection.Seq) valueOf(files, "partitionFilters")).isEmpty();
            } catch (Exception unknown) {
                // Another release of Delta.
                return false;
            }
        }

        public scala.collection.immutable.Seq rootPaths() {
            return files.rootPaths();
        }

        public scala.collection.immutable.Seq listFiles(
            scala.collection.immutable.Seq partitions, scala.collection.immutable.Seq data) {
            throw new UnsupportedOperationException("This plan is not executed.");
        }

        public String[] inputFiles() {
            return new String[0];
        }

        public void refresh() {
        }

        public long sizeInBytes() {
            return files.sizeInBytes();
        }

        public StructType partitionSchema() {
            return files.partitionSchema();
        }
    }
}
