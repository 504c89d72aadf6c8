import java.io.BufferedReader;
import java.io.FileReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.catalyst.analysis.ResolvedPersistentView;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.command.DescribeColumnCommand;
import org.apache.spark.sql.execution.command.DescribeTableCommand;
import org.apache.spark.sql.execution.command.ShowCreateTableCommand;
import org.apache.spark.sql.execution.command.ShowTablePropertiesCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.mutable.ArrayBuffer;

/**
 * An extension of Spark that shows a user fewer rows of a table, or a column multiplied by a number, wherever the table
 * is read, also below views. Each line of the file, whose path tests/row_policies.py fills in, is
 * `user filter table column number`, `user mask table column number` or `user deny name`: whoever is denied a table or a
 * view can neither read nor describe it. Columns are INT.
 */
public class RowPolicies extends scala.runtime.AbstractFunction1 {
    public Object apply(Object extensions) {
        ((SparkSessionExtensions) extensions).injectResolutionRule(new scala.runtime.AbstractFunction1() {
            public Object apply(Object session) {
                return new Policies();
            }
        });
        return scala.runtime.BoxedUnit.UNIT;
    }

    public static class Policies extends Rule {
        public TreeNode apply(TreeNode plan) {
            return ((LogicalPlan) plan).resolveOperatorsUp(new Restriction());
        }
    }

    public static class Restriction extends scala.runtime.AbstractPartialFunction {
        private static final TreeNodeTag SEEN = new TreeNodeTag("freshgate.policies");

        public boolean isDefinedAt(Object node) {
            refuse(named(node));
            return node instanceof LogicalRelation
                && ((LogicalRelation) node).catalogTable().isDefined()
                && ((LogicalRelation) node).getTagValue(SEEN).isEmpty();
        }

        /** The name of the table or view that is read or described; null for other nodes. */
        private static String named(Object node) {
            if (node instanceof View) {
                return ((View) node).desc().identifier().table();
            }
            if (node instanceof ResolvedPersistentView) {
                return ((ResolvedPersistentView) node).identifier().name();
            }
            if (node instanceof LogicalRelation && ((LogicalRelation) node).catalogTable().isDefined()) {
                return ((CatalogTable) ((LogicalRelation) node).catalogTable().get()).identifier().table();
            }
            if (node instanceof DescribeTableCommand) {
                return ((DescribeTableCommand) node).table().table();
            }
            if (node instanceof DescribeColumnCommand) {
                return ((DescribeColumnCommand) node).table().table();
            }
            if (node instanceof ShowCreateTableCommand) {
                return ((ShowCreateTableCommand) node).table().table();
            }
            return node instanceof ShowTablePropertiesCommand
                ? ((ShowTablePropertiesCommand) node).table().table()
                : null;
        }

        private static void refuse(String name) {
            String user = CurrentUserContext.getCurrentUser();
            List policies = name == null ? new ArrayList() : policiesOf(user, name);
            for (int place = 0; place < policies.size(); place++) {
                if (((String[]) policies.get(place))[1].equals("deny")) {
                    throw new SecurityException(user + " has no right to " + name);
                }
            }
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return isDefinedAt(node) ? restricted((LogicalRelation) node) : otherwise.apply(node);
        }

        private static LogicalPlan restricted(LogicalRelation relation) {
            relation.setTagValue(SEEN, Boolean.TRUE);
            String table = named(relation);
            LogicalPlan plan = relation;
            List policies = policiesOf(CurrentUserContext.getCurrentUser(), table);
            for (int place = 0; place < policies.size(); place++) {
                String[] policy = (String[]) policies.get(place);
                Literal value = Literal.create(Integer.valueOf(policy[4]), DataTypes.IntegerType);
                plan = policy[1].equals("filter")
                    ? (LogicalPlan) new Filter(new EqualTo(columnOf(plan, policy[3]), value), plan)
                    : masked(plan, policy[3], value);
            }
            return plan;
        }

        private static Attribute columnOf(LogicalPlan plan, String name) {
            scala.collection.Iterator columns = plan.output().iterator();
            while (columns.hasNext()) {
                Attribute column = (Attribute) columns.next();
                if (column.name().equals(name)) {
                    return column;
                }
            }
            throw new IllegalArgumentException(name);
        }

        private static LogicalPlan masked(LogicalPlan plan, String name, Literal value) {
            ArrayBuffer shown = new ArrayBuffer();
            scala.collection.Iterator columns = plan.output().iterator();
            while (columns.hasNext()) {
                Attribute column = (Attribute) columns.next();
                shown.addOne(column.name().equals(name)
                    ? (Object) new Alias(new Multiply(column, value), name, NamedExpression$.MODULE$.newExprId(),
                        (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$,
                        scala.Option.empty(), (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$)
                    : column);
            }
            return new Project(shown.toSeq(), plan);
        }

        private static List policiesOf(String user, String table) {
            List found = new ArrayList();
            try {
                BufferedReader lines = new BufferedReader(new FileReader("FILE"));
                try {
                    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                        String[] words = line.split(" ");
                        if (words.length > 2 && words[0].equals(user) && words[2].equals(table)) {
                            found.add(words);
                        }
                    }
                } finally {
                    lines.close();
                }
            } catch (java.io.IOException error) {
                throw new RuntimeException(error);
            }
            return found;
        }
    }
}
