package freshgate;

import java.io.File;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.RuleExecutor;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;

/**
 * Refuses changes of what the gateway stores, from every session of this Spark that is not the gateway's: a Spark
 * session extension. Janino, which Spark brings for its generated code, compiles this file, so it uses Java as of
 * version 8.
 *
 * It reads no texts. Spark calls it with each statement's analyzed plan, in which all names are resolved, whether the
 * statement came from IDENTIFIER, EXECUTE IMMEDIATE, a script or a variable. A command that names something that is
 * protected is refused unless it is known to be harmless. What a command's query reads does not count.
 *
 * A session is the gateway's if it was opened with the secret whose SHA-256 Spark's configuration holds. The secret is
 * removed from the session at its first statement, so that no text can read it. In the session of a client, the gateway
 * permits a statement by a signed comment (`PERMIT`), which names the one object that the statement changes. It can be
 * used by one statement only.
 *
 * Only what Spark 3.5 to 4.1, with Scala 2.12 and 2.13, have in common is called directly; the rest by reflection.
 */
public class StorageGuard extends scala.runtime.AbstractFunction1 {
    /** Settings of Spark: fixed once it has started. */
    private static final String HASH = "spark.freshgate.guard.sha256";
    private static final String DATABASE = "spark.freshgate.guard.database";
    private static final String SINGLE_SESSION = "spark.sql.hive.thriftServer.singleSession";
    /** Settings of a session. Their names do not begin with `spark`, so that Spark does not pass them to tasks. */
    private static final String SECRET = "freshgate.guard.secret";
    private static final String STATE = "freshgate.guard.state";

    /** SQL scripts need a name of the error, for their handlers. */
    private static final String CONDITION = "MATERIALIZED_VIEW_STORAGE";
    private static final String SESSION_CATALOG = "spark_catalog";
    /** The time in milliseconds, a random number and a signature, as `letters` in the gateway's code writes them. */
    private static final Pattern PERMIT = Pattern.compile("/\\* freshgate permits ((?:[a-p]{4} ){27})\\*/");
    private static final int TIME_DIGITS = 12;
    private static final int NUMBER_DIGITS = 32;
    private static final long PERMIT_MILLIS = 3600000L;
    private static final int PERMITS_KEPT = 10000;
    private static final int DEPTH_MAX = 12;
    private static final String STORED = "(?s).+__[0-9a-f]{8}(__definition)?";
    /** Plans that a command only reads, and names of tables whose definition it only copies. */
    private static final Set READ = words(
        "query plan source sourceTable sourceQuery logicalPlan originalPlan cteDefs cteRelations innerChildren");
    private static final Set COPIED = words("sourceTable source sourceIdentifier");
    /** Texts that are kept and shown, and name nothing that the command changes. */
    private static final Set TEXTS = words("comment newComment originalText exprText queryText inputParamText"
        + " returnTypeText userSpecifiedColumns");
    /** The property that is a text of this kind. */
    private static final String COMMENT = "comment";
    /** Commands that change nothing but the session or Spark's caches. */
    private static final Set HARMLESS = words(
        "CacheTable CacheTableAsSelect CacheTableCommand ClearCacheCommand CreateTempView CreateTempViewCommand"
        + " CreateTempViewUsing CreateVariable DescribeColumn DescribeColumnCommand DescribeDatabaseCommand"
        + " DescribeFunction DescribeFunctionCommand DescribeNamespace DescribeProcedureCommand"
        + " DescribeQueryCommand DescribeRelation DescribeRelationJsonCommand DescribeTableCommand DropTempViewCommand"
        + " DropVariable ExplainCommand ListArchivesCommand ListFilesCommand ListJarsCommand NoopCommand"
        + " RefreshFunction RefreshFunctionCommand RefreshResource RefreshTable RefreshTableCommand ResetCommand"
        + " SetCatalogAndNamespace SetCatalogCommand SetCommand SetNamespaceCommand SetVariable ShowCatalogsCommand"
        + " ShowColumns ShowColumnsCommand ShowCreateTable ShowCreateTableAsSerdeCommand ShowCreateTableCommand"
        + " ShowCurrentNamespaceCommand ShowFunctions ShowFunctionsCommand ShowNamespaces ShowNamespacesCommand"
        + " ShowPartitions ShowPartitionsCommand ShowProceduresCommand ShowTableExtended ShowTablePartition"
        + " ShowTableProperties ShowTablePropertiesCommand ShowTables ShowTablesCommand ShowTablesExtended ShowViews"
        + " ShowViewsCommand UncacheTable UncacheTableCommand");
    private static final Pattern WILD = Pattern.compile("[*?\\[{]");
    private static final String FILE_LIST = "file_list_view";
    /** Fields whose text is a path. */
    private static final Set PLACES = words("location path locationSpec");
    private static final Set OBJECT_STORES = words("s3 s3a s3n gs oss cosn obs");

    /** The property of a storage table that has the view's LOCATION, as hexadecimal digits of JSON. */
    private static final String CLAUSES = "freshgate.clauses";

    private static volatile byte[] secret;
    /** The gateway's sessions. */
    private static final Set trusted = java.util.Collections.synchronizedSet(
        java.util.Collections.newSetFromMap(new java.util.WeakHashMap()));
    /** The directories of storage tables that are not below the storage database's, also of dropped ones. */
    private static final Set elsewhere = ConcurrentHashMap.newKeySet();
    private static volatile boolean isElsewhereKnown;
    /** The permits that were used, with the statement that used each and the time of the permit. */
    private static final Map used = new HashMap();

    /** Adds the guard to the extensions of all sessions of this Spark. */
    public Object apply(Object extensions) {
        SparkSessionExtensions all = (SparkSessionExtensions) extensions;
        all.injectCheckRule(new Builder());
        all.injectPostHocResolutionRule(new CallBuilder(false));
        // Spark 3.5 has no such rules, and needs none.
        Method[] methods = all.getClass().getMethods();
        for (int place = 0; place < methods.length; place++) {
            if (methods[place].getName().equals("injectHintResolutionRule")) {
                invoke(all, methods[place], new Object[] {new CallBuilder(true)});
            }
        }
        return scala.runtime.BoxedUnit.UNIT;
    }

    /** Makes the rule of a session. */
    private static final class Builder extends scala.runtime.AbstractFunction1 {
        public Object apply(Object session) {
            return new Rule(session);
        }
    }

    /** Makes the rules of a session for procedures. */
    private static final class CallBuilder extends scala.runtime.AbstractFunction1 {
        private final boolean early;

        CallBuilder(boolean early) {
            this.early = early;
        }

        public Object apply(Object session) {
            return new Calls(session, early);
        }
    }

    /** Spark shows its message and its SQLSTATE to the client. */
    private static final class Refused extends RuntimeException implements SparkThrowable {
        Refused(String message) {
            super(message);
        }

        public String getCondition() {
            return CONDITION;
        }

        public String getErrorClass() {
            return CONDITION;
        }

        public String getSqlState() {
            return "42501";
        }

        public boolean isInternalError() {
            return false;
        }

        public Map getMessageParameters() {
            return new HashMap();
        }

        public org.apache.spark.QueryContext[] getQueryContext() {
            return new org.apache.spark.QueryContext[0];
        }

        public String toString() {
            return getMessage();
        }
    }

    /** The rule of one session. */
    private static final class Rule extends scala.runtime.AbstractFunction1 {
        private final Judge judge;

        Rule(Object session) {
            this.judge = new Judge(session);
        }

        public Object apply(Object plan) {
            look((LogicalPlan) plan);
            return scala.runtime.BoxedUnit.UNIT;
        }

        /** Finds the commands in a plan. Expressions hold none. */
        private void look(LogicalPlan plan) {
            if (isCommand(plan)) {
                judge.judge(plan);
            } else if (!(plan instanceof View)) {
                each(((scala.Product) plan).productIterator());
            }
        }

        private void each(scala.collection.Iterator values) {
            while (values.hasNext()) {
                Object value = values.next();
                if (value instanceof LogicalPlan) {
                    look((LogicalPlan) value);
                } else if (value instanceof scala.collection.Iterable && !(value instanceof scala.collection.Map)) {
                    scala.collection.Iterator within = elements(value);
                    while (within.hasNext()) {
                        Object inner = within.next();
                        if (!(inner instanceof LogicalPlan)) {
                            break;
                        }
                        look((LogicalPlan) inner);
                    }
                }
            }
        }

        private boolean isCommand(LogicalPlan plan) {
            return plan instanceof org.apache.spark.sql.catalyst.plans.logical.Command
                || plan instanceof org.apache.spark.sql.catalyst.plans.logical.ParsedStatement
                || isCall(plan);
        }
    }

    private static boolean isCall(LogicalPlan plan) {
        return plan.getClass().getSimpleName().equals("Call");
    }

    /**
     * Sees procedures before they run. Spark 4 runs them while it resolves a plan, before it asks check rules, and after
     * the rules for hints. In Spark 3.5 a procedure of Iceberg is a command.
     *
     * The arguments are replaced by their values, so that what was judged is what runs: `current_timestamp()` and
     * variables of the session may have another value a moment later.
     */
    private static final class Calls extends org.apache.spark.sql.catalyst.rules.Rule {
        private static final int STOP = 0;
        private static final int JUDGE = 1;
        private static final int SETTLE = 2;
        private final Object session;
        private final boolean early;

        Calls(Object session, boolean early) {
            this.session = session;
            this.early = early;
        }

        public TreeNode apply(TreeNode tree) {
            LogicalPlan plan = (LogicalPlan) tree;
            if (!holdsCall(plan) || isTrusted(session) || isOff()) {
                return plan;
            }
            if (!early) {
                return mapped(plan, SETTLE);
            }
            // A call may stand below a plan with the values of its parameters, so all of the plan is resolved. What cannot
            // be resolved does not run, and Spark says why.
            LogicalPlan stopped = mapped(plan, STOP);
            return mapped((LogicalPlan) analyzer().execute(stopped), JUDGE);
        }

        /** Whether one runs in this plan: with EXPLAIN, none does. */
        private boolean holdsCall(LogicalPlan plan) {
            if (isCall(plan)) {
                Object execute = value(plan, "execute");
                return early ? Boolean.TRUE.equals(execute) : execute == null;
            }
            scala.collection.Iterator children = elements(call(plan, "children"));
            while (children.hasNext()) {
                if (holdsCall((LogicalPlan) children.next())) {
                    return true;
                }
            }
            return false;
        }

        private LogicalPlan mapped(LogicalPlan plan, final int what) {
            if (isCall(plan)) {
                return what == STOP ? stopped(plan) : what == JUDGE ? judged(plan) : settled(plan);
            }
            return (LogicalPlan) plan.mapChildren(new scala.runtime.AbstractFunction1() {
                public Object apply(Object child) {
                    return mapped((LogicalPlan) child, what);
                }
            });
        }

        private LogicalPlan stopped(LogicalPlan plan) {
            return copied(plan, value(plan, "procedure"), value(plan, "args"), Boolean.FALSE);
        }

        private LogicalPlan judged(LogicalPlan plan) {
            if (!plan.resolved() || !((Boolean) call(plan, "bound")).booleanValue()
                || !((TypeCheckResult) call(plan, "checkArgTypes")).isSuccess()) {
                return plan;
            }
            LogicalPlan settled = settled(plan);
            new Judge(session).judge(settled);
            return settled;
        }

        /** A call that runs, with values as arguments. */
        private LogicalPlan settled(LogicalPlan plan) {
            if (!plan.resolved()) {
                return plan;
            }
            // Some expressions have values only after they are optimized.
            LogicalPlan optimized = (LogicalPlan) optimizer().execute(plan);
            List values = new ArrayList();
            scala.collection.Iterator arguments = elements(value(optimized, "args"));
            while (arguments.hasNext()) {
                Expression argument = (Expression) arguments.next();
                // Without a value, Spark refuses the call.
                values.add(argument.foldable() ? new Literal(argument.eval(null), argument.dataType()) : argument);
            }
            // Scala's builders differ between 2.12 and 2.13.
            scala.collection.immutable.List given = scala.collection.immutable.Nil$.MODULE$;
            for (int place = values.size() - 1; place >= 0; place--) {
                given = new scala.collection.immutable.$colon$colon(values.get(place), given);
            }
            return copied(plan, value(plan, "procedure"), given, Boolean.TRUE);
        }

        private RuleExecutor analyzer() {
            return (RuleExecutor) call(call(session, "sessionState"), "analyzer");
        }

        private RuleExecutor optimizer() {
            return (RuleExecutor) call(call(session, "sessionState"), "optimizer");
        }

        private LogicalPlan copied(LogicalPlan plan, Object procedure, Object arguments, Boolean execute) {
            Object[] fields = early ? new Object[] {procedure, arguments, execute} : new Object[] {procedure, arguments};
            Method[] methods = plan.getClass().getMethods();
            for (int place = 0; place < methods.length; place++) {
                if (methods[place].getName().equals("copy") && methods[place].getParameterTypes().length == fields.length) {
                    return (LogicalPlan) invoke(plan, methods[place], fields);
                }
            }
            throw new IllegalStateException(plan.getClass().getName() + " has no method copy.");
        }
    }

    private static boolean isTrusted(Object session) {
        return trusted.contains(session);
    }

    /** Judges the commands of one session. */
    private static final class Judge {
        private final Object session;

        Judge(Object session) {
            this.session = session;
        }

        void judge(LogicalPlan command) {
            SQLConf conf = SQLConf.get();
            if (conf.contains(SECRET)) {
                boolean right = isSecret(conf.getConfString(SECRET, ""), conf);
                conf.unsetConf(SECRET);
                if (right) {
                    trusted.add(session);
                } else {
                    trusted.remove(session);
                }
            }
            boolean ours = isTrusted(session);
            if (ours && command.getClass().getSimpleName().startsWith("Create")) {
                Finding made = new Finding(session);
                made.learns = true;
                made.fields(command, 0);
            }
            if (ours || HARMLESS.contains(command.getClass().getSimpleName()) || isTemporary(command) || isOff()) {
                return;
            }
            Finding finding = new Finding(session);
            finding.fields(command, 0);
            if (finding.reason() != null && !isPermitted(finding)) {
                throw new Refused(finding.reason());
            }
        }

        private boolean isSecret(String given, SQLConf conf) {
            String hash = setting(HASH);
            byte[] expected = bytes(hash.toLowerCase(Locale.ROOT));
            boolean right = !isOff() && MessageDigest.isEqual(bytes(sha256(given)), expected);
            if (right) {
                secret = bytes(given);
            }
            conf.setConfString(STATE, isShared() ? "single session" : hash.isEmpty() ? "no hash"
                : !right ? "unknown gateway" : "active " + storage());
            return right;
        }

        private boolean isPermitted(Finding finding) {
            SparkContext context = (SparkContext) call(session, "sparkContext");
            String text = context.getLocalProperty("spark.job.description");
            // While a command runs, a client's settings are local properties; before, only Spark's own are. It lacks what
            // `spark.sql.redaction.string.regex` matches, so a permit looks like no number, key or token.
            if (secret == null || text == null || finding.names.isEmpty()
                || context.getLocalProperty("spark.sql.execution.id") != null) {
                return false;
            }
            Matcher permits = PERMIT.matcher(text);
            while (permits.find()) {
                String permit = digits(permits.group(1));
                if (isValid(permit, finding) && isFirst(permit, context.getLocalProperty("spark.jobGroup.id"))) {
                    return true;
                }
            }
            return false;
        }
    }

    /** Whether a view that is created belongs to the session. */
    private static boolean isTemporary(LogicalPlan command) {
        Object type = value(command, "viewType");
        String kind = type == null ? "" : type.getClass().getSimpleName();
        return kind.equals("LocalTempView$") || kind.equals("GlobalTempView$");
    }

    /** The hexadecimal digits of a permit. */
    private static String digits(String letters) {
        StringBuilder digits = new StringBuilder();
        for (int place = 0; place < letters.length(); place++) {
            if (letters.charAt(place) != ' ') {
                digits.append(Character.forDigit(letters.charAt(place) - 'a', 16));
            }
        }
        return digits.toString();
    }

    private static long timeOf(String permit) {
        return Long.parseLong(permit.substring(0, TIME_DIGITS), 16);
    }

    private static String numberOf(String permit) {
        return permit.substring(TIME_DIGITS, TIME_DIGITS + NUMBER_DIGITS);
    }

    private static boolean isValid(String permit, Finding finding) {
        if (Math.abs(System.currentTimeMillis() - timeOf(permit)) > PERMIT_MILLIS) {
            return false;
        }
        String told = permit.substring(0, TIME_DIGITS + NUMBER_DIGITS);
        String signature = permit.substring(TIME_DIGITS + NUMBER_DIGITS);
        Iterator names = finding.names.iterator();
        while (names.hasNext()) {
            if (!MessageDigest.isEqual(bytes(hmac(secret, told + " " + names.next())), bytes(signature))) {
                return false;
            }
        }
        return true;
    }

    /** Whether no other statement has used the permit. */
    private static boolean isFirst(String permit, String statement) {
        synchronized (used) {
            long now = System.currentTimeMillis();
            if (used.size() > PERMITS_KEPT) {
                Iterator each = used.values().iterator();
                while (each.hasNext()) {
                    if (now - Long.parseLong(((String[]) each.next())[1]) > PERMIT_MILLIS) {
                        each.remove();
                    }
                }
            }
            String[] before = (String[]) used.get(numberOf(permit));
            if (before == null) {
                used.put(numberOf(permit), new String[] {String.valueOf(statement), String.valueOf(timeOf(permit))});
            }
            return before == null || before[0].equals(statement);
        }
    }

    /** What a command changes that is protected. */
    private static final class Finding {
        private String reason;
        private String directoryReason;
        /** The names that it may not change, as `database.table`. */
        final Set names = new LinkedHashSet();
        private final Object session;
        private final Object catalog;
        /** Whether the text that is looked at certainly is a path. */
        private boolean isPlace;
        /** Notes where the storage table lies that the command creates. */
        boolean learns;
        /** What the metastore has said for this command, which names a table and a directory several times. */
        private final Map known = new HashMap();
        private final Set seen = new HashSet();

        Finding(Object session) {
            this.session = session;
            this.catalog = call(call(session, "sessionState"), "catalog");
        }

        /** Why the command is refused; null if it is not. A name says more than the directory behind it. */
        String reason() {
            return reason != null ? reason : directoryReason;
        }

        /** Collects from all fields of a command. */
        void fields(Object command, int depth) {
            if (isComment(command)) {
                return;
            }
            if (learns && command instanceof CatalogTable) {
                note((CatalogTable) command);
            }
            String kind = command.getClass().getSimpleName();
            List fieldNames = fieldNames(command);
            scala.collection.Iterator values = ((scala.Product) command).productIterator();
            for (int place = 0; values.hasNext(); place++) {
                Object value = values.next();
                String field = place < fieldNames.size() ? (String) fieldNames.get(place) : "";
                if (value instanceof LogicalPlan && READ.contains(field)) {
                    continue;
                }
                if (value instanceof TableIdentifier && COPIED.contains(field) || TEXTS.contains(field)) {
                    continue;
                }
                if (kind.equals("Call") && value instanceof scala.collection.Iterable) {
                    arguments(value);
                    unseen(command, value);
                }
                if (PLACES.contains(field)) {
                    place(value);
                }
                collect(value, depth + 1);
            }
            if (command instanceof scala.Tuple2 && ((scala.Tuple2) command)._1() instanceof String) {
                option((String) ((scala.Tuple2) command)._1(), ((scala.Tuple2) command)._2());
            }
            if (kind.equals("DropDatabaseCommand") || kind.equals("DropNamespace")) {
                database(command);
            }
        }

        /** What certainly is a path, even without a slash. */
        private void place(Object value) {
            if (value instanceof scala.Option) {
                value = ((scala.Option) value).isEmpty() ? null : ((scala.Option) value).get();
            }
            if (value instanceof String) {
                isPlace = true;
                path((String) value);
                isPlace = false;
            }
        }

        private boolean isComment(Object entry) {
            return entry instanceof scala.Tuple2 && COMMENT.equals(((scala.Tuple2) entry)._1());
        }

        private void option(String key, Object value) {
            String lower = key.toLowerCase(Locale.ROOT);
            if (lower.endsWith("path") || lower.endsWith("location")) {
                place(value);
            }
        }

        private void collect(Object value, int depth) {
            if (value == null || depth > DEPTH_MAX || value instanceof DataType) {
                return;
            }
            if (value instanceof Expression || value instanceof Number || value instanceof Boolean) {
                return;
            }
            if (value instanceof String) {
                text((String) value);
            } else if (value instanceof URI || value instanceof File
                || value.getClass().getName().endsWith(".fs.Path")) {
                path(value.toString());
            } else if (value instanceof TableIdentifier) {
                identifier((TableIdentifier) value);
            } else if (value instanceof FunctionIdentifier) {
                function((FunctionIdentifier) value);
            } else if (value instanceof CatalogTable) {
                table((CatalogTable) value);
            } else if (value instanceof CatalogDatabase) {
                name(SESSION_CATALOG, ((CatalogDatabase) value).name(), null);
                path(String.valueOf(((CatalogDatabase) value).locationUri()));
            } else if (value instanceof LogicalPlan) {
                plan((LogicalPlan) value, depth);
            } else if (value instanceof Identifier) {
                named(SESSION_CATALOG, (Identifier) value);
            } else if (value instanceof Table) {
                v2(value, depth);
            } else if (value instanceof Object[]) {
                Object[] all = (Object[]) value;
                for (int place = 0; place < all.length; place++) {
                    collect(all[place], depth + 1);
                }
            } else if (value instanceof Map) {
                Iterator entries = ((Map) value).entrySet().iterator();
                while (entries.hasNext()) {
                    Map.Entry entry = (Map.Entry) entries.next();
                    fields(new scala.Tuple2(entry.getKey(), entry.getValue()), depth);
                }
            } else if (value instanceof scala.collection.Iterable) {
                scala.collection.Iterator all = elements(value);
                while (all.hasNext()) {
                    collect(all.next(), depth + 1);
                }
            } else if (value instanceof scala.Product) {
                fields(value, depth);
            } else {
                directories(value, depth);
            }
        }

        /** Objects that are no products know their directories by these methods: file indexes, and Delta's logs. */
        private void directories(Object value, int depth) {
            String[] methods = {"rootPaths", "dataPath"};
            for (int place = 0; place < methods.length; place++) {
                collect(told(value, methods[place]), depth + 1);
            }
        }

        private void plan(LogicalPlan plan, int depth) {
            String kind = plan.getClass().getSimpleName();
            if (kind.equals("ResolvedTempView") || kind.equals("ResolvedNonPersistentFunc")) {
                return;
            }
            Object identifier = value(plan, "identifier");
            Object catalog = value(plan, "catalog");
            if (identifier instanceof scala.Option) {
                identifier = ((scala.Option) identifier).isEmpty() ? null : ((scala.Option) identifier).get();
                catalog = ((scala.Option) catalog).isEmpty() ? null : ((scala.Option) catalog).get();
            }
            if (identifier == null) {
                identifier = value(plan, "ident");
            }
            if (identifier instanceof Identifier && catalog instanceof CatalogPlugin) {
                Identifier found = (Identifier) identifier;
                named(((CatalogPlugin) catalog).name(), found);
                List parts = new ArrayList(Arrays.asList(found.namespace()));
                parts.add(found.name());
                located(catalog, parts);
            } else if (catalog instanceof CatalogPlugin) {
                Object namespace = value(plan, "namespace");
                List parts = new ArrayList();
                scala.collection.Iterator each =
                    namespace instanceof scala.collection.Iterable ? elements(namespace) : null;
                while (each != null && each.hasNext()) {
                    parts.add(String.valueOf(each.next()));
                }
                located(catalog, parts);
            }
            List fieldNames = fieldNames(plan);
            scala.collection.Iterator values = ((scala.Product) plan).productIterator();
            for (int place = 0; values.hasNext(); place++) {
                Object value = values.next();
                String field = place < fieldNames.size() ? (String) fieldNames.get(place) : "";
                if (!field.equals("identifier") && !TEXTS.contains(field) && !(value instanceof CatalogPlugin)) {
                    collect(value, depth + 1);
                }
            }
        }

        /**
         * What a command names in a catalog that keeps its tables below a directory, which no name tells: Iceberg's, for
         * example, makes directories of the namespaces and tables that a client creates.
         */
        private void located(Object catalog, List parts) {
            Iterator roots = learns ? new HashSet().iterator() : Roots.of(catalog).iterator();
            while (roots.hasNext() && reason() == null) {
                String root = (String) roots.next();
                String own = directory();
                if (own != null && within(normal(root), normal(own))) {
                    path(root);
                }
                StringBuilder inDatabase = new StringBuilder(root);
                StringBuilder plain = new StringBuilder(root);
                for (int place = 0; place < parts.size(); place++) {
                    plain.append('/').append(parts.get(place));
                    inDatabase.append('/').append(parts.get(place));
                    if (place == parts.size() - 2 || parts.size() == 1) {
                        inDatabase.append(".db");
                    }
                }
                if (!parts.isEmpty()) {
                    path(plain.toString());
                    path(inDatabase.toString());
                }
            }
        }

        private void v2(Object table, int depth) {
            Object properties = told(table, "properties");
            if (properties instanceof Map) {
                collect(((Map) properties).get("location"), depth + 1);
                collect(((Map) properties).get("path"), depth + 1);
            }
            // Not `fileIndex`, which would list the files.
            String[] methods = {"v1Table", "catalogTable", "path", "paths"};
            for (int place = 0; place < methods.length; place++) {
                collect(told(table, methods[place]), depth + 1);
            }
        }

        private void identifier(TableIdentifier found) {
            if (learns) {
                return;
            }
            String database = found.database().isEmpty() ? null : (String) found.database().get();
            if (database == null) {
                if (((Boolean) call(catalog, "isTempView", found, TableIdentifier.class)).booleanValue()) {
                    return;
                }
                database = (String) call(catalog, "getCurrentDatabase");
            }
            name(SESSION_CATALOG, database, found.table());
        }

        private void function(FunctionIdentifier found) {
            String database = found.database().isEmpty()
                ? (String) call(catalog, "getCurrentDatabase")
                : (String) found.database().get();
            if (isStorage(database)) {
                refuse(database, found.funcName());
            }
        }

        private void named(String catalogName, Identifier found) {
            String[] namespace = found.namespace();
            boolean within = namespace.length > 0;
            for (int place = 0; place < namespace.length; place++) {
                within &= true;
                if (isStorage(namespace[place])) {
                    refuse(namespace[place], found.name());
                }
            }
            name(catalogName, within ? namespace[namespace.length - 1] : null, found.name());
        }

        private void name(String catalogName, String database, String table) {
            if (learns) {
                return;
            }
            if (isStorage(database)) {
                refuse(database, table);
            }
            if (table == null) {
                return;
            }
            if (table.indexOf('/') >= 0) {
                path(table);
            } else if (database != null && catalogName.equals(SESSION_CATALOG)) {
                CatalogTable there = lookUp(database, table);
                if (there != null) {
                    table(there);
                }
            }
        }

        private void table(CatalogTable found) {
            if (learns) {
                note(found);
                return;
            }
            TableIdentifier identifier = found.identifier();
            String database = identifier.database().isEmpty() ? null : (String) identifier.database().get();
            if (isStorage(database)) {
                refuse(database, identifier.table());
            }
            if (found.storage().locationUri().isDefined()) {
                path(found.storage().locationUri().get().toString());
            }
            if (isPublic(found)) {
                refuseView(database, identifier.table());
            } else if (database != null && found.viewText().isEmpty() && found.storage().locationUri().isEmpty()) {
                // A table to be created, perhaps in place of a view.
                CatalogTable there = lookUp(database, identifier.table());
                if (there != null && isPublic(there)) {
                    refuseView(database, identifier.table());
                }
            }
        }

        /** The text of a view that shows the rows of a storage table, which the metastore attributes to this name. */
        private boolean isPublic(CatalogTable found) {
            if (found.viewText().isEmpty()) {
                return false;
            }
            Matcher shown = Pattern.compile(
                "(?s)SELECT .* FROM (?:`spark_catalog`\\.)?`" + Pattern.quote(storage().replace("`", "``"))
                + "`\\.`([^`]+)` WHERE freshgate_version .*", Pattern.CASE_INSENSITIVE)
                .matcher((String) found.viewText().get());
            return shown.matches() && lookUp(storage(), shown.group(1)) != null;
        }

        private CatalogTable lookUp(String database, String table) {
            String[] names = {database.toLowerCase(Locale.ROOT), table.toLowerCase(Locale.ROOT)};
            List key = Arrays.asList(names);
            if (!known.containsKey(key)) {
                known.put(key, fetched(names));
            }
            return (CatalogTable) known.get(key);
        }

        private CatalogTable fetched(String[] names) {
            try {
                Object external = call(catalog, "externalCatalog");
                boolean there = ((Boolean) call(external, "tableExists", names)).booleanValue();
                return there ? (CatalogTable) call(external, "getTable", names) : null;
            } catch (NoSuchThing missing) {
                return null;
            }
        }

        /** A database that is dropped: with what is in it, and where it lies. */
        private void database(Object command) {
            Object found = value(command, "databaseName");
            if (found == null) {
                Object namespace = value(value(command, "namespace"), "namespace");
                if (!(namespace instanceof scala.collection.Iterable)) {
                    return;
                }
                scala.collection.Iterator parts = elements(namespace);
                while (parts.hasNext()) {
                    found = parts.next();
                }
            }
            String[] name = {String.valueOf(found).toLowerCase(Locale.ROOT)};
            Object external = call(catalog, "externalCatalog");
            if (!((Boolean) call(external, "databaseExists", name)).booleanValue()) {
                return;
            }
            path(String.valueOf(((CatalogDatabase) call(external, "getDatabase", name)).locationUri()));
            scala.collection.Iterator views =
                elements(call(external, "listViews", new String[] {name[0], "*"}));
            while (views.hasNext() && reason == null) {
                CatalogTable there = lookUp(name[0], (String) views.next());
                if (there != null && isPublic(there)) {
                    refuseView(name[0], there.identifier().table());
                }
            }
        }

        /** Arguments of a procedure, which may be names and paths, also within arrays and maps. */
        private void arguments(Object values) {
            scala.collection.Iterator all = elements(values);
            while (all.hasNext()) {
                Object value = all.next();
                if (value instanceof Literal) {
                    Literal literal = (Literal) value;
                    argument(org.apache.spark.sql.catalyst.CatalystTypeConverters.convertToScala(
                        literal.value(), literal.dataType()));
                }
            }
        }

        /** Iceberg's remove_orphan_files deletes the files that a view lists, which only running it would show. */
        private void unseen(Object call, Object values) {
            Object procedure = value(call, "procedure");
            if (procedure instanceof LogicalPlan) {
                procedure = value(procedure, "procedure");
            }
            Object parameters = told(procedure, "parameters");
            scala.collection.Iterator all = elements(values);
            for (int place = 0; all.hasNext() && parameters instanceof Object[]; place++) {
                Object value = all.next();
                Object[] known = (Object[]) parameters;
                if (place < known.length && FILE_LIST.equals(told(known[place], "name")) && value instanceof Literal
                    && ((Literal) value).value() != null && directory() != null && reason == null) {
                    reason = "The argument " + FILE_LIST + " names files to be deleted, which cannot be checked to be none"
                        + " of materialized views. Leave it out, and name a location if necessary.";
                }
            }
        }

        private void argument(Object value) {
            if (value instanceof String) {
                argumentText((String) value);
            } else if (value instanceof scala.collection.Iterable) {
                scala.collection.Iterator all = elements(value);
                while (all.hasNext()) {
                    argument(all.next());
                }
            } else if (value instanceof scala.Tuple2) {
                argument(((scala.Tuple2) value)._1());
                argument(((scala.Tuple2) value)._2());
            } else if (value instanceof org.apache.spark.sql.Row) {
                argument(call(value, "toSeq"));
            }
        }

        private void argumentText(String text) {
            // As in parquet.`/a/directory`.
            int slash = text.indexOf('/');
            if (slash >= 0) {
                path(text);
                path(text.substring(slash).replace("`", ""));
            }
            String[] parts = text.replace("`", "").split("\\.");
            for (int place = 0; place < parts.length && slash < 0; place++) {
                text(parts[place]);
            }
            if (slash >= 0) {
                return;
            }
            if (parts.length > 1) {
                name(SESSION_CATALOG, parts[parts.length - 2], parts[parts.length - 1]);
            } else if (parts.length == 1) {
                name(SESSION_CATALOG, (String) call(catalog, "getCurrentDatabase"), parts[0]);
            }
        }

        private void text(String text) {
            if (isStorage(text)) {
                refuse(text, null);
            } else if (text.indexOf('/') >= 0 || text.equals("..")) {
                path(text);
            }
        }

        private void path(String text) {
            if (reason() == null && seen.add(isPlace + text) && directory() != null && meets(text)) {
                directoryReason = "The directory " + text + " holds the rows of materialized views, or is above them."
                    + " Only the gateway may change what is there: choose another directory.";
            }
        }

        private boolean meets(String text) {
            if (learns) {
                return false;
            }
            if (overlaps(text, directory())) {
                return true;
            }
            readLocations();
            Iterator each = elsewhere.iterator();
            while (each.hasNext()) {
                String other = (String) each.next();
                if (overlaps(text, other) && lookUp(storage(), other.substring(other.lastIndexOf('/') + 1)) != null) {
                    return true;
                }
            }
            return sameStore(text, directory()) && names(text);
        }

        private boolean overlaps(String text, String directory) {
            String own = normal(directory);
            if (!sameStore(text, directory)) {
                return false;
            }
            if (text.startsWith("/") || text.matches("(?s)[A-Za-z][A-Za-z0-9+.-]*:/.*")) {
                return meet(normal(text), own);
            }
            if (!isPlace && WILD.matcher(text).find()) {
                // Perhaps a comment such as 'a * b / c'.
                return meet(normal(text), own);
            }
            // Relative to where Spark runs, or to the directory of databases.
            // Texts of views have wildcards and slashes, too: what follows a wildcard is not above these directories.
            text = text.replaceAll("[*?\\[{]", "_");
            String parent = own.substring(0, own.lastIndexOf('/') + 1);
            return meet(normal(text), own) || meet(normal(workingDirectory() + "/" + text), own)
                || meet(normal(parent + text), own);
        }

        private boolean meet(String place, String own) {
            return within(place, own) || within(own, place);
        }

        private String workingDirectory() {
            try {
                Object conf = call(call(session, "sparkContext"), "hadoopConfiguration");
                return org.apache.hadoop.fs.FileSystem.get((org.apache.hadoop.conf.Configuration) conf)
                    .getWorkingDirectory().toString();
            } catch (java.io.IOException unreachable) {
                return new File("").getAbsolutePath();
            }
        }

        /** Notes where all storage tables lie that this Spark has not created. */
        private void readLocations() {
            if (isElsewhereKnown) {
                return;
            }
            Object external = call(catalog, "externalCatalog");
            String database = storage().toLowerCase(Locale.ROOT);
            Object[] arguments = {database, call(external, "listTables", new String[] {database})};
            Method[] methods = external.getClass().getMethods();
            for (int place = 0; place < methods.length; place++) {
                if (methods[place].getName().equals("getTablesByName")) {
                    methods[place].setAccessible(true);
                    Object tables = invoke(external, methods[place], arguments);
                    scala.collection.Iterator each = elements(tables);
                    while (each.hasNext()) {
                        note((CatalogTable) each.next());
                    }
                }
            }
            isElsewhereKnown = true;
        }

        /** Notes where a storage table lies if it is elsewhere. */
        private void note(CatalogTable table) {
            scala.Option clauses =
                (scala.Option) call(table.properties(), "get", new Object[] {CLAUSES}, new Class[] {Object.class});
            if (clauses.isEmpty() || !((String) clauses.get()).matches("x([0-9a-f]{2})*")) {
                return;
            }
            String digits = ((String) clauses.get()).substring(1);
            byte[] json = new byte[digits.length() / 2];
            for (int place = 0; place < json.length; place++) {
                json[place] = (byte) Integer.parseInt(digits.substring(2 * place, 2 * place + 2), 16);
            }
            try {
                com.fasterxml.jackson.databind.JsonNode location =
                    new com.fasterxml.jackson.databind.ObjectMapper().readTree(json).get("location");
                if (location != null && location.isTextual()) {
                    elsewhere.add(location.asText() + "/" + table.identifier().table());
                }
            } catch (java.io.IOException unclear) {
                // Not what the gateway writes.
            }
        }

        /** Whether a part of a path is the name of a storage table, or of the storage database's directory. */
        private boolean names(String text) {
            String place = normal(text);
            String own = normal(directory());
            String[] parts = place.split("/");
            String last = own.substring(own.lastIndexOf('/') + 1);
            for (int part = 0; part < parts.length; part++) {
                if (parts[part].equalsIgnoreCase(last)) {
                    return true;
                }
                if (parts[part].matches(STORED) && lookUp(storage(), parts[part]) != null) {
                    return true;
                }
            }
            return false;
        }

        /** The directory of the storage database; null before it exists. */
        private String directory() {
            String[] name = {storage().toLowerCase(Locale.ROOT)};
            List key = Arrays.asList(name);
            if (!known.containsKey(key)) {
                Object external = call(catalog, "externalCatalog");
                boolean there = ((Boolean) call(external, "databaseExists", name)).booleanValue();
                known.put(key, there ? String.valueOf(((CatalogDatabase) call(external, "getDatabase", name)).locationUri()) : null);
            }
            return (String) known.get(key);
        }

        private void refuse(String database, String name) {
            names.add(database.toLowerCase(Locale.ROOT) + "." + (name == null ? "" : name.toLowerCase(Locale.ROOT)));
            if (reason == null) {
                reason = (name == null ? "The database " + database : database + "." + name)
                    + " belongs to the gateway's storage of materialized views, which only the gateway may change. Use"
                    + " REFRESH, ALTER or DROP MATERIALIZED VIEW.";
            }
        }

        private void refuseView(String database, String name) {
            names.add(database.toLowerCase(Locale.ROOT) + "." + name.toLowerCase(Locale.ROOT));
            if (reason == null) {
                reason = database + "." + name + " is a materialized view, which only the gateway may change. Use"
                    + " REFRESH, ALTER or DROP MATERIALIZED VIEW.";
            }
        }
    }

    private static boolean within(String place, String directory) {
        return place.equals(directory) || place.startsWith(directory.endsWith("/") ? directory : directory + "/");
    }

    /** Different buckets of an object store share nothing. One file system may have several names otherwise. */
    private static boolean sameStore(String one, String other) {
        try {
            URI left = new URI(one.replace(" ", "%20"));
            URI right = new URI(other.replace(" ", "%20"));
            return left.getScheme() == null || right.getScheme() == null || left.getAuthority() == null
                || !OBJECT_STORES.contains(left.getScheme()) || !OBJECT_STORES.contains(right.getScheme())
                || left.getAuthority().equals(right.getAuthority());
        } catch (java.net.URISyntaxException unclear) {
            return true;
        }
    }

    /** The path in a URI: up to the first wildcard, without `..`, and without symbolic links on this machine. */
    private static String normal(String text) {
        String path = text;
        Matcher whole = Pattern.compile("(?s)([A-Za-z][A-Za-z0-9+.-]*):(?://[^/]*)?(/.*)?").matcher(text);
        boolean local = true;
        if (whole.matches()) {
            path = whole.group(2) == null ? "/" : whole.group(2);
            local = whole.group(1).equalsIgnoreCase("file");
        }
        try {
            path = java.net.URLDecoder.decode(path.replace("+", "%2B"), "UTF-8");
        } catch (Exception literal) {
            // A per cent sign that encodes nothing.
        }
        Matcher wild = WILD.matcher(path);
        // Texts and comments have such characters, too, and would be paths above everything.
        if (path.startsWith("/") && wild.find()) {
            path = path.substring(0, path.lastIndexOf('/', wild.start()) + 1);
        }
        if (!path.startsWith("/")) {
            return new File("/", path).toPath().normalize().toString();
        }
        try {
            return local ? new File(path).getCanonicalPath() : new File(path).toPath().normalize().toString();
        } catch (Exception unusable) {
            return path;
        }
    }

    /** The directories that catalogs know, by catalog. */
    private static final class Roots {
        private static final Map known = java.util.Collections.synchronizedMap(new java.util.WeakHashMap());
        private static final int DEPTH = 6;
        private static final int OBJECTS = 500;
        private static final int ENTRIES = 100;
        /** Fields and options that name a catalog's directory. */
        private static final Pattern NAMED = Pattern.compile(
            "(.*[.-])?warehouse.*|(.*[.-])?(location|path|root|dir|directory)|.*(Location|Path|Root|Dir|Directory)",
            Pattern.DOTALL);
        /** Packages whose objects name no directory of a catalog's, or have too many fields. */
        private static final String FOREIGN =
            "(java|javax|jdk|sun|com\\.sun|scala|org\\.slf4j|org\\.apache\\.(spark|hadoop|hive|logging|thrift))\\..*"
            + "|.*\\.(shaded|caffeine)\\..*";

        private final Set found = new LinkedHashSet();
        private final Map seen = new java.util.IdentityHashMap();

        static Set of(Object catalog) {
            Set roots = (Set) known.get(catalog);
            if (roots == null) {
                Roots looking = new Roots();
                looking.object(catalog, 0);
                roots = looking.found;
                known.put(catalog, roots);
            }
            return roots;
        }

        private void value(String name, Object value, int depth) {
            if (value instanceof String || value instanceof URI || value instanceof org.apache.hadoop.fs.Path) {
                String text = value.toString();
                if (NAMED.matcher(name).matches() && text.indexOf('/') >= 0 && text.indexOf('$') < 0) {
                    found.add(text);
                }
            } else if (value instanceof Map) {
                Iterator entries = ((Map) value).entrySet().iterator();
                for (int place = 0; place < ENTRIES && entries.hasNext(); place++) {
                    Map.Entry entry = (Map.Entry) entries.next();
                    if (entry.getKey() instanceof String && entry.getValue() instanceof String) {
                        value((String) entry.getKey(), entry.getValue(), depth);
                    }
                }
            } else if (value != null) {
                object(value, depth + 1);
            }
        }

        private void object(Object object, int depth) {
            if (depth > DEPTH || seen.size() > OBJECTS || object.getClass().isArray()
                || object instanceof Class || object instanceof ClassLoader
                || object.getClass().getName().matches(FOREIGN) || seen.put(object, object) != null) {
                return;
            }
            for (Class kind = object.getClass(); kind != null && !kind.getName().startsWith("java."); kind = kind.getSuperclass()) {
                Field[] fields = kind.getDeclaredFields();
                for (int place = 0; place < fields.length; place++) {
                    if (!Modifier.isStatic(fields[place].getModifiers()) && !fields[place].getType().isPrimitive()) {
                        try {
                            fields[place].setAccessible(true);
                            value(fields[place].getName(), fields[place].get(object), depth);
                        } catch (IllegalAccessException hidden) {
                            // A field that says nothing.
                        } catch (RuntimeException closed) {
                            // As above, of a module.
                        }
                    }
                }
            }
        }
    }

    // --- Spark's objects ---------------------------------------------------------------------------------------------

    private static final class NoSuchThing extends RuntimeException {
    }

    /** The names of a case class's fields, in their order. */
    private static List fieldNames(Object product) {
        Method method = method(product, "productElementNames");
        List names = new ArrayList();
        if (method != null) {
            scala.collection.Iterator each = (scala.collection.Iterator) invoke(product, method);
            while (each.hasNext()) {
                names.add(each.next());
            }
            return names;
        }
        // Scala 2.12 does not tell them. Its compiler declares the constructor's fields in their order, as final ones, and
        // lazy values among them, which are not.
        Field[] fields = product.getClass().getDeclaredFields();
        for (int place = 0; place < fields.length; place++) {
            int modifiers = fields[place].getModifiers();
            if (!Modifier.isStatic(modifiers) && Modifier.isFinal(modifiers)) {
                names.add(fields[place].getName());
            }
        }
        return names;
    }

    /** The elements of a Scala collection. Its interfaces differ between Scala 2.12 and 2.13. */
    private static scala.collection.Iterator elements(Object collection) {
        return (scala.collection.Iterator) call(collection, "iterator");
    }

    /** The field of a case class; null if it has none of this name. */
    private static Object value(Object product, String name) {
        Method method = product == null ? null : method(product, name);
        return method == null ? null : invoke(product, method);
    }

    /** What an object tells; null if it has no such method, or not in its state: Delta's `v1Table` needs a name. */
    private static Object told(Object object, String name) {
        try {
            return value(object, name);
        } catch (IllegalStateException other) {
            return null;
        }
    }

    private static Method method(Object object, String name) {
        try {
            Method method = object.getClass().getMethod(name, new Class[0]);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException missing) {
            return null;
        } catch (RuntimeException hidden) {
            return null;
        }
    }

    private static Object invoke(Object object, Method method) {
        return invoke(object, method, new Object[0]);
    }

    private static Object invoke(Object object, Method method, Object[] arguments) {
        try {
            return method.invoke(object, arguments);
        } catch (IllegalAccessException hidden) {
            throw new IllegalStateException(hidden);
        } catch (InvocationTargetException failed) {
            throw new IllegalStateException(failed.getCause());
        }
    }

    private static Object call(Object object, String name) {
        Method method = method(object, name);
        if (method == null) {
            throw new IllegalStateException(object.getClass().getName() + " has no method " + name + ".");
        }
        return invoke(object, method);
    }

    private static Object call(Object object, String name, Object argument, Class type) {
        return call(object, name, new Object[] {argument}, new Class[] {type});
    }

    private static Object call(Object object, String name, String[] arguments) {
        Class[] types = new Class[arguments.length];
        Arrays.fill(types, String.class);
        return call(object, name, arguments, types);
    }

    private static Object call(Object object, String name, Object[] arguments, Class[] types) {
        try {
            Method method = object.getClass().getMethod(name, types);
            method.setAccessible(true);
            return method.invoke(object, arguments);
        } catch (InvocationTargetException failed) {
            if (failed.getCause().getClass().getSimpleName().startsWith("NoSuch")) {
                throw new NoSuchThing();
            }
            throw new IllegalStateException(failed.getCause());
        } catch (ReflectiveOperationException other) {
            throw new IllegalStateException(other);
        }
    }

    // --- settings and signatures -------------------------------------------------------------------------------------

    private static String setting(String name) {
        return SparkEnv.get().conf().get(name, "");
    }

    private static boolean isShared() {
        return setting(SINGLE_SESSION).equals("true");
    }

    /** Whether it cannot tell the gateway's sessions from others, and so lets everything pass. */
    private static boolean isOff() {
        return setting(HASH).isEmpty() || isShared();
    }

    private static String storage() {
        return SparkEnv.get().conf().get(DATABASE, "freshgate_storage");
    }

    private static boolean isStorage(String database) {
        return database != null && database.equalsIgnoreCase(storage());
    }

    private static Set words(String text) {
        return new HashSet(Arrays.asList(text.split(" ")));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String sha256(String text) {
        try {
            return hex(MessageDigest.getInstance("SHA-256").digest(bytes(text)));
        } catch (java.security.GeneralSecurityException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static String hmac(byte[] key, String text) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return hex(mac.doFinal(bytes(text)));
        } catch (java.security.GeneralSecurityException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static String hex(byte[] all) {
        StringBuilder out = new StringBuilder();
        for (int place = 0; place < all.length; place++) {
            out.append(Character.forDigit(all[place] >> 4 & 15, 16)).append(Character.forDigit(all[place] & 15, 16));
        }
        return out.toString();
    }
}
