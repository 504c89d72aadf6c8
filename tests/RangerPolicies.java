import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.ranger.admin.client.AbstractRangerAdminClient;
import org.apache.ranger.plugin.util.ServicePolicies;

/**
 * Gives Ranger's plugin the policies of a file, in the place of a Ranger server. tests/ranger.py writes the file, whose
 * path it fills in here. Another file tells which version the plugin applies.
 */
public class RangerPolicies extends AbstractRangerAdminClient {
    public ServicePolicies getServicePoliciesIfUpdated(long version, long activated) throws Exception {
        Files.write(Paths.get("FILE" + ".applied"), Long.toString(version).getBytes());
        ObjectMapper mapper = new ObjectMapper();
        mapper.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
        ServicePolicies found = (ServicePolicies) mapper.readValue(new File("FILE"), ServicePolicies.class);
        return found.getPolicyVersion().longValue() == version ? null : found;
    }
}
