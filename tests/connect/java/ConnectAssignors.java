import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.EagerAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;
import sun.misc.Unsafe;

/**
 * Runs rounds of Kafka Connect's own assignors, one JSON object per line.
 *
 * {"max_delay": 300000}   ->  "ok": a new assignor
 * {"now": ms, "last": generation, "generation": g, "configured": {"a": 4},
 *  "members": [["W1", ["a"], [["a", 0]]], ...]}
 *   ->  {"delay": ms, "members": {"W1": [connectors, tasks, revoked connectors, revoked tasks]}}
 * {"eager": leader, "members": [[id, metadata in hex], ...],
 *  "snapshot": [offset, {"a": 4}], "fresh": [offset, {"a": 4}]}
 *   ->  {id: assignment in hex}: the eager assignor's
 */
public class ConnectAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static long now = 0;
    private static final Time TIME = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(),
        new Class<?>[] {Time.class}, (proxy, method, arguments) -> {
            if (method.getName().equals("milliseconds")) return now;
            throw new UnsupportedOperationException(method.getName());
        });
    private static final String ASSIGNMENT =
        "org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor$ClusterAssignment";
    private static Method perform;
    private static final Map<String, Method> GETTERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        perform = IncrementalCooperativeAssignor.class.getDeclaredMethod("performTaskAssignment",
            ClusterConfigState.class, int.class, int.class, Map.class);
        perform.setAccessible(true);
        for (String name : List.of("newlyAssignedConnectors", "newlyAssignedTasks", "newlyRevokedConnectors",
                "newlyRevokedTasks")) {
            Method getter = Class.forName(ASSIGNMENT).getMethod(name, String.class);
            getter.setAccessible(true);
            GETTERS.put(name, getter);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        IncrementalCooperativeAssignor assignor = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            if (question.has("max_delay")) {
                assignor = assignor(question);
                out.println("\"ok\"");
            } else if (question.has("eager")) {
                out.println(JSON.writeValueAsString(eager(question)));
            } else {
                out.println(JSON.writeValueAsString(answer(assignor, question, round(assignor, question))));
            }
        }
    }

    private static ObjectNode eager(JsonNode question) throws Exception {
        List<JoinGroupResponseMember> members = new ArrayList<>();
        for (JsonNode member : question.get("members")) {
            members.add(new JoinGroupResponseMember().setMemberId(member.get(0).asText())
                .setMetadata(HexFormat.of().parseHex(member.get(1).asText())));
        }
        ClusterConfigState fresh = snapshot(question.get("fresh"));
        Object store = Proxy.newProxyInstance(ConfigBackingStore.class.getClassLoader(),
            new Class<?>[] {ConfigBackingStore.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("snapshot")) return fresh;
                throw new UnsupportedOperationException(method.getName());
            });
        // without its constructor, which wants a whole client: the assignor asks it for configurations only
        Field unsafe = Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        WorkerCoordinator coordinator =
            (WorkerCoordinator) ((Unsafe) unsafe.get(null)).allocateInstance(WorkerCoordinator.class);
        Field storage = WorkerCoordinator.class.getDeclaredField("configStorage");
        storage.setAccessible(true);
        storage.set(coordinator, store);
        coordinator.configSnapshot(snapshot(question.get("snapshot")));
        ObjectNode answer = JSON.createObjectNode();
        new EagerAssignor(new LogContext())
            .performAssignment(question.get("eager").asText(), "default", members, coordinator)
            .forEach((id, data) -> {
                byte[] bytes = new byte[data.remaining()];
                data.duplicate().get(bytes);
                answer.put(id, HexFormat.of().formatHex(bytes));
            });
        return answer;
    }

    private static ClusterConfigState snapshot(JsonNode snapshot) {
        return configured(snapshot.get(0).asLong(), snapshot.get(1));
    }

    private static IncrementalCooperativeAssignor assignor(JsonNode question) {
        return new IncrementalCooperativeAssignor(new LogContext(), TIME, question.get("max_delay").asInt());
    }

    private static Object round(IncrementalCooperativeAssignor assignor, JsonNode question) throws Exception {
        now = question.get("now").asLong();
        return perform.invoke(assignor, configured(question.get("configured")), question.get("last").asInt(),
            question.get("generation").asInt(), members(question.get("members")));
    }

    private static ClusterConfigState configured(JsonNode connectors) {
        return configured(1, connectors);
    }

    private static ClusterConfigState configured(long offset, JsonNode connectors) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        connectors.fields().forEachRemaining(each -> {
            counts.put(each.getKey(), each.getValue().asInt());
            configs.put(each.getKey(), Map.of());
        });
        return new ClusterConfigState(offset, null, counts, configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(),
            Set.of(), Set.of());
    }

    private static Map<String, ConnectorsAndTasks> members(JsonNode members) {
        Map<String, ConnectorsAndTasks> result = new LinkedHashMap<>();
        for (JsonNode member : members) {
            List<String> connectors = new ArrayList<>();
            member.get(1).forEach(each -> connectors.add(each.asText()));
            List<ConnectorTaskId> tasks = new ArrayList<>();
            member.get(2).forEach(each -> tasks.add(new ConnectorTaskId(each.get(0).asText(), each.get(1).asInt())));
            result.put(member.get(0).asText(),
                new ConnectorsAndTasks.Builder().with(connectors, tasks).build());
        }
        return result;
    }

    private static ObjectNode answer(IncrementalCooperativeAssignor assignor, JsonNode question, Object assignment)
            throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        java.lang.reflect.Field delay = IncrementalCooperativeAssignor.class.getDeclaredField("delay");
        delay.setAccessible(true);
        answer.put("delay", delay.getInt(assignor));
        ObjectNode members = answer.putObject("members");
        for (JsonNode member : question.get("members")) {
            String id = member.get(0).asText();
            ArrayNode lists = members.putArray(id);
            connectors(lists.addArray(), GETTERS.get("newlyAssignedConnectors").invoke(assignment, id));
            tasks(lists.addArray(), GETTERS.get("newlyAssignedTasks").invoke(assignment, id));
            connectors(lists.addArray(), GETTERS.get("newlyRevokedConnectors").invoke(assignment, id));
            tasks(lists.addArray(), GETTERS.get("newlyRevokedTasks").invoke(assignment, id));
        }
        return answer;
    }

    private static void connectors(ArrayNode list, Object connectors) {
        for (Object each : (Collection<?>) connectors) list.add((String) each);
    }

    private static void tasks(ArrayNode list, Object tasks) {
        for (Object each : (Collection<?>) tasks) {
            ConnectorTaskId id = (ConnectorTaskId) each;
            list.addArray().add(id.connector()).add(id.task());
        }
    }
}
