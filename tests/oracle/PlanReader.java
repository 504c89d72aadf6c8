import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.CTESubstitution$;
import org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedExecuteImmediate;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunctionName;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedView;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CreateUserDefinedFunction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoDir;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.execution.command.CreateSQLFunctionCommand;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.ResetCommand;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What Spark's parser makes of texts, one line for each name that a plan holds: its kind, the command that it belongs
 * to, and its parts. Janino, which Spark brings for its generated code, compiles this file.
 */
public class PlanReader {
    private static final String FIELD = "\u0001";
    private static final String LINE = "\u0002";
    private static final String TEXT = "\u0003";
    private static final String UNKNOWN = "\u0004";
    private static final String NOTHING = "nothing";
    private static final String REFUSED = "refused";
    private static final Pattern VARIABLE = Pattern.compile("\\$\\{(?:\\w+:)?(v\\.\\S+?)\\}");
    private static final int DEPTH_MAX = 4;
    private static final String[] KEYS = {
        "spark.sql.parser.escapedStringLiterals", "spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.caseSensitive"
    };

    private final SparkSqlParser parser = new SparkSqlParser();
    private int current;
    private StringBuilder found;
    private Set seen;
    private int depth;

    private void set(int bits) {
        for (int key = 0; key < KEYS.length; key++) {
            if (((bits ^ current) >> key & 1) != 0) {
                // Not by setConfString, which warns each time.
                SQLConf.get().settings().put(KEYS[key], String.valueOf((bits >> key & 1) != 0));
            }
        }
        current = bits;
    }

    /**
     * The plans' names, texts apart like those given; "-" and the error's class for a text that Spark refuses.
     * `settings` has a character for each text, whose bits are what KEYS are set to.
     */
    public String read(String joined, String settings) {
        String[] texts = joined.split(TEXT, -1);
        StringBuilder all = new StringBuilder();
        for (int place = 0; place < texts.length; place++) {
            if (place > 0) {
                all.append(TEXT);
            }
            set(settings.charAt(place) - '0');
            all.append(one(texts[place]));
        }
        return all.toString();
    }

    /**
     * The tokens of Spark's lexer with their first and last characters, texts apart like those given. Those that its
     * parser does not see, blanks and comments, are left out.
     */
    public String lex(String joined) {
        StringBuilder all = new StringBuilder();
        String[] texts = joined.split(TEXT, -1);
        for (int place = 0; place < texts.length; place++) {
            if (place > 0) {
                all.append(TEXT);
            }
            SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(texts[place])));
            lexer.removeErrorListeners();
            for (Token token = lexer.nextToken(); token.getType() != Token.EOF; token = lexer.nextToken()) {
                if (token.getChannel() == Token.DEFAULT_CHANNEL) {
                    String name = SqlBaseLexer.VOCABULARY.getSymbolicName(token.getType());
                    all.append(name + FIELD + token.getStartIndex() + FIELD + token.getStopIndex() + LINE);
                }
            }
        }
        return all.toString();
    }

    /** The printed plan, for people. */
    public String show(String text) {
        return parser.parsePlan(text).treeString();
    }

    private String one(String text) {
        found = new StringBuilder();
        seen = java.util.Collections.newSetFromMap(new IdentityHashMap());
        depth = 0;
        define(text);
        try {
            LogicalPlan plan = parser.parsePlan(text);
            found.append(plan.getClass().getSimpleName());
            walk(plan, "");
            return found.toString();
        } catch (StackOverflowError error) {
            return "-StackOverflowError";
        } catch (Exception error) {
            return "-" + error.getClass().getSimpleName();
        }
    }

    /** The variable v.x has the value x. */
    private void define(String text) {
        if (text.indexOf("${") >= 0) {
            Matcher matcher = VARIABLE.matcher(text);
            while (matcher.find()) {
                SQLConf.get().setConfString(matcher.group(1), matcher.group(1).substring(2));
            }
        }
    }

    private void note(String kind, String owner, String[] parts) {
        found.append(LINE).append(kind).append(FIELD).append(owner);
        for (int place = 0; place < parts.length; place++) {
            found.append(FIELD).append(parts[place]);
        }
    }

    private void name(String kind, String owner, scala.collection.Iterable parts) {
        String[] texts = new String[parts.size()];
        scala.collection.Iterator iterator = parts.iterator();
        for (int place = 0; place < texts.length; place++) {
            texts[place] = String.valueOf(iterator.next());
            if (texts[place].equals(UNKNOWN)) {
                return;
            }
        }
        note(kind, owner, texts);
    }

    private void walk(Object part, String owner) {
        if (part instanceof scala.collection.Iterable) {
            if (part instanceof TreeNode) {
                return;
            }
            all(((scala.collection.Iterable) part).iterator(), owner);
        } else if (part instanceof TreeNode) {
            if (seen.add(part)) {
                node((TreeNode) part, owner);
            }
        } else if (part instanceof TableIdentifier) {
            name("TableIdentifier", owner, ((TableIdentifier) part).nameParts());
        } else if (part instanceof FunctionIdentifier) {
            name("FunctionIdentifier", owner, ((FunctionIdentifier) part).nameParts());
        } else if (part instanceof scala.Product) {
            if (!(part instanceof org.apache.spark.sql.types.DataType)) {
                all(((scala.Product) part).productIterator(), owner);
            }
        }
    }

    private void all(scala.collection.Iterator iterator, String owner) {
        while (iterator.hasNext()) {
            walk(iterator.next(), owner);
        }
    }

    private void parts(TreeNode node, String owner) {
        all(((scala.Product) node).productIterator(), owner);
        all(node.children().iterator(), owner);
        all(node.innerChildren().iterator(), owner);
    }

    private void node(TreeNode node, String owner) {
        if (node instanceof UnresolvedWith) {
            owner = !isUnrun(owner) && givesNothing(((UnresolvedWith) node).child()) ? NOTHING : owner;
            LogicalPlan plan = CTESubstitution$.MODULE$.apply((LogicalPlan) node);
            if (plan instanceof UnresolvedWith) {
                parts(plan, owner);
            } else {
                walk(plan, owner);
            }
            return;
        }
        if (node instanceof UnresolvedRelation) {
            name("UnresolvedRelation", owner, ((UnresolvedRelation) node).multipartIdentifier());
        } else if (node instanceof UnresolvedIdentifier) {
            name("UnresolvedIdentifier", owner, ((UnresolvedIdentifier) node).nameParts());
        } else if (node instanceof UnresolvedTable) {
            name("UnresolvedTable", owner, ((UnresolvedTable) node).multipartIdentifier());
        } else if (node instanceof UnresolvedView) {
            name("UnresolvedView", owner, ((UnresolvedView) node).multipartIdentifier());
        } else if (node instanceof UnresolvedTableOrView) {
            name("UnresolvedTableOrView", owner, ((UnresolvedTableOrView) node).multipartIdentifier());
        } else if (node instanceof UnresolvedNamespace) {
            name("UnresolvedNamespace", owner, ((UnresolvedNamespace) node).multipartIdentifier());
        } else if (node instanceof UnresolvedFunctionName) {
            name("UnresolvedFunctionName", owner, ((UnresolvedFunctionName) node).multipartIdentifier());
        } else if (node instanceof UnresolvedTableValuedFunction) {
            name("function", owner, ((UnresolvedTableValuedFunction) node).name());
        } else if (node instanceof UnresolvedGenerator) {
            name("function", owner, ((UnresolvedGenerator) node).name().nameParts());
            all(node.children().iterator(), owner);
            return;
        } else if (node instanceof UnresolvedFunction) {
            name("function", owner, ((UnresolvedFunction) node).nameParts());
        } else if (node instanceof UnresolvedExecuteImmediate) {
            immediate((UnresolvedExecuteImmediate) node);
        } else if (node instanceof PlanWithUnresolvedIdentifier) {
            PlanWithUnresolvedIdentifier named = (PlanWithUnresolvedIdentifier) node;
            scala.collection.immutable.Seq name = made(named.identifierExpr());
            Object plan = named.planBuilder().apply(name, named.children());
            compose(name, isCommand(plan) && !isUnrun(owner) ? plan.getClass().getSimpleName() : owner);
            walk(plan, owner);
            walk(named.identifierExpr(), ofName(named.identifierExpr(), owner));
            return;
        } else if (node instanceof ExpressionWithUnresolvedIdentifier) {
            ExpressionWithUnresolvedIdentifier named = (ExpressionWithUnresolvedIdentifier) node;
            scala.collection.immutable.Seq name = made(named.identifierExpr());
            compose(name, owner);
            walk(named.exprBuilder().apply(name, named.otherExprs()), owner);
            walk(named.identifierExpr(), ofName(named.identifierExpr(), owner));
            return;
        }
        if (isCommand(node)) {
            owner = isUnrun(owner) ? owner : node.getClass().getSimpleName();
            command(node, owner);
        }
        String target = isUnrun(owner) ? owner : "target";
        if (node instanceof InsertIntoDir) {
            owner = isUnrun(owner) ? owner : "InsertIntoDir";
            command(node, owner);
        } else if (node instanceof InsertIntoStatement) {
            walk(((InsertIntoStatement) node).table(), target);
        } else if (node instanceof MergeIntoTable) {
            walk(((MergeIntoTable) node).targetTable(), target);
        } else if (node instanceof UpdateTable) {
            walk(((UpdateTable) node).table(), target);
        } else if (node instanceof DeleteFromTable) {
            walk(((DeleteFromTable) node).table(), target);
        } else if (node instanceof V2WriteCommand) {
            walk(((V2WriteCommand) node).table(), target);
        }
        parts(node, !isUnrun(owner) && isEmpty(node) ? NOTHING : owner);
    }

    /** Spark runs no query to find a name: it refuses a statement that has one there. */
    private String ofName(Expression expression, String owner) {
        return SubqueryExpression$.MODULE$.hasSubquery(expression) ? REFUSED : owner;
    }

    private boolean isCommand(Object node) {
        return node instanceof Command || node instanceof ParsedStatement;
    }

    private boolean isUnrun(String owner) {
        return owner.startsWith("Explain") || owner.startsWith("Describe") || owner.equals(NOTHING);
    }

    /** Whether nothing of what a node holds is run, for a constant leaves no row. */
    private boolean isEmpty(Object node) {
        return node instanceof GlobalLimit && isZero(((GlobalLimit) node).limitExpr())
            || node instanceof Filter && isFalse(((Filter) node).condition())
            || (node instanceof Sort || isGrouped(node)) && givesNothing((LogicalPlan) ((UnaryNode) node).child());
    }

    /** An aggregate that has no row where nothing is to be grouped. */
    private boolean isGrouped(Object node) {
        return node instanceof Aggregate && ((Aggregate) node).groupingExpressions().nonEmpty();
    }

    /** Whether such a node is at the top, or below others that have no queries of their own. */
    private boolean givesNothing(LogicalPlan plan) {
        while (!isEmpty(plan)) {
            if (!(plan instanceof UnaryNode) || hasQueries(plan)) {
                return false;
            }
            plan = (LogicalPlan) ((UnaryNode) plan).child();
        }
        return true;
    }

    private boolean hasQueries(LogicalPlan plan) {
        scala.collection.Iterator expressions = plan.expressions().iterator();
        while (expressions.hasNext()) {
            if (SubqueryExpression$.MODULE$.hasSubquery((Expression) expressions.next())) {
                return true;
            }
        }
        return false;
    }

    private boolean isZero(Object expression) {
        return expression instanceof Literal && Integer.valueOf(0).equals(((Literal) expression).value());
    }

    /** Whether a condition of constants leaves no row: FALSE, 1 = 0, and such a one AND others. */
    private boolean isFalse(Object condition) {
        if (condition instanceof And) {
            return isFalse(((And) condition).left()) || isFalse(((And) condition).right());
        }
        if (condition instanceof EqualTo) {
            Object left = whole(((EqualTo) condition).left());
            Object right = whole(((EqualTo) condition).right());
            return left != null && right != null && !left.equals(right);
        }
        return condition instanceof Literal && Boolean.FALSE.equals(((Literal) condition).value());
    }

    /** The value of a whole number, whatever its type is; null for anything else. */
    private Object whole(Object expression) {
        Object value = expression instanceof Literal ? ((Literal) expression).value() : null;
        boolean dated = value != null && !(((Literal) expression).dataType() instanceof NumericType);
        boolean whole = value instanceof Integer || value instanceof Long;
        return whole && !dated ? Long.valueOf(((Number) value).longValue()) : null;
    }

    private void command(TreeNode node, String owner) {
        String[] nothing = new String[0];
        note("command", owner, nothing);
        if (node instanceof CreateViewCommand) {
            String[] type = {((CreateViewCommand) node).viewType().toString()};
            note("type", owner, type);
        } else if (node instanceof SetCommand) {
            if (((SetCommand) node).kv().isDefined()) {
                String[] key = {String.valueOf(((scala.Tuple2) ((SetCommand) node).kv().get())._1())};
                note("setting", owner, key);
            }
        } else if (node instanceof ResetCommand) {
            String[] key = {String.valueOf(((ResetCommand) node).config().getOrElse(null))};
            note("setting", owner, key);
        } else if (node instanceof CreateUserDefinedFunction) {
            body(((CreateUserDefinedFunction) node).exprText(), ((CreateUserDefinedFunction) node).queryText(), owner);
        } else if (node instanceof CreateSQLFunctionCommand) {
            body(((CreateSQLFunctionCommand) node).exprText(), ((CreateSQLFunctionCommand) node).queryText(), owner);
        } else if (node instanceof RenameTable) {
            name("newName", owner, ((RenameTable) node).newName());
        } else if (owner.equals("CacheTableAsSelect")) {
            String[] name = {String.valueOf(((scala.Product) node).productElement(0))};
            note("tempViewName", owner, name);
        }
    }

    private void body(scala.Option expression, scala.Option query, String owner) {
        if (expression.isDefined()) {
            walk(parser.parseExpression((String) expression.get()), owner);
        }
        if (query.isDefined()) {
            walk(parser.parseQuery((String) query.get()), owner);
        }
    }

    private String literal(Object expression) {
        if (expression instanceof Literal && ((Literal) expression).value() instanceof UTF8String) {
            return ((Literal) expression).value().toString();
        }
        return null;
    }

    private void immediate(UnresolvedExecuteImmediate node) {
        String text = literal(node.sqlStmtStr());
        if (text == null || depth >= DEPTH_MAX) {
            String[] nothing = new String[0];
            note("composed", "UnresolvedExecuteImmediate", nothing);
            return;
        }
        LogicalPlan plan;
        try {
            plan = parser.parsePlan(text);
        } catch (Exception error) {
            return;
        }
        depth++;
        walk(plan, "");
        depth--;
    }

    /** The parts of the name that an IDENTIFIER(...) makes; one part that is none where it is put together. */
    private scala.collection.immutable.Seq made(Object expression) {
        String text = literal(expression);
        if (text == null) {
            return scala.collection.immutable.Nil$.MODULE$.$colon$colon(UNKNOWN);
        }
        return parser.parseMultipartIdentifier(text);
    }

    private void compose(scala.collection.immutable.Seq name, String owner) {
        if (UNKNOWN.equals(name.head())) {
            String[] nothing = new String[0];
            note("composed", owner, nothing);
        }
    }
}
