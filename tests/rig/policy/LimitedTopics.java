import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** What platform teams forbid: large records, short segments, names that nobody has registered. */
public class LimitedTopics implements CreateTopicPolicy {
    private static final long MAX_BYTES = 8 << 20;
    private static final long MIN_SEGMENT_MS = 3600000;

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void validate(RequestMetadata asked) {
        Map<String, String> configs = asked.configs();
        if (!asked.topic().matches("__.*|(known|quiet|strict)\\..*")) {
            throw new PolicyViolationException("the name " + asked.topic() + " is not registered");
        }
        boolean quiet = asked.topic().startsWith("quiet.");
        if (over(configs.get("max.message.bytes"))) {
            throw new PolicyViolationException(
                    quiet ? "ask the platform team" : "max.message.bytes must be at most " + MAX_BYTES);
        }
        if (below(configs.get("segment.ms"))) {
            throw new PolicyViolationException(
                    quiet ? "ask the platform team" : "segment.ms must be at least an hour");
        }
        if (asked.topic().startsWith("strict.") && configs.containsKey("cleanup.policy")) {
            throw new PolicyViolationException("cleanup.policy is the platform team's");
        }
    }

    private static boolean over(String bytes) {
        return bytes != null && Long.parseLong(bytes) > MAX_BYTES;
    }

    private static boolean below(String ms) {
        return ms != null && Long.parseLong(ms) < MIN_SEGMENT_MS;
    }

    @Override
    public void close() {}
}
