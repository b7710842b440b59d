import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;

import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.MetadataRecoveryStrategy;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.consumer.internals.AbstractCoordinator;
import org.apache.kafka.clients.consumer.internals.ConsumerNetworkClient;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.PlaintextChannelBuilder;
import org.apache.kafka.common.network.Selector;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;

/**
 * A member of a group of protocol type "sr" (protocol "v0", JSON on the wire) on Kafka's own AbstractCoordinator.
 *
 * Arguments: bootstrap servers, group id, host, port. It tells what happens, a line each:
 * "prepare GENERATION MEMBER", "lead GENERATION MEMBERS", "complete GENERATION MEMBER ASSIGNMENT", "error TEXT".
 * It reads "rejoin" and "close"; the end of its input is a close as well.
 */
public class SrMember extends AbstractCoordinator {
    private static final long RETRY_MS = 50;
    private final String identity;

    private SrMember(ConsumerNetworkClient client, Metrics metrics, String groupId, String identity) {
        super(rebalanceConfig(groupId), new LogContext(), client, metrics, "sr", Time.SYSTEM);
        this.identity = identity;
    }

    private static GroupRebalanceConfig rebalanceConfig(String groupId) {
        int sessionMs = 8_000, rebalanceMs = 30_000, heartbeatMs = 100;
        return new GroupRebalanceConfig(
            sessionMs, rebalanceMs, heartbeatMs, groupId, Optional.empty(), null, RETRY_MS, 10 * RETRY_MS);
    }

    @Override
    protected String protocolType() {
        return "sr";
    }

    @Override
    protected JoinGroupRequestProtocolCollection metadata() {
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestProtocol()
            .setName("v0")
            .setMetadata(identity.getBytes(StandardCharsets.UTF_8)));
        return protocols;
    }

    @Override
    protected boolean onJoinPrepare(Timer timer, int generation, String memberId) {
        say("prepare " + generation + " " + memberId);
        return true;
    }

    /** Elects the eligible member with the smallest URL, and tells the same to all. */
    @Override
    protected Map<String, ByteBuffer> onLeaderElected(
            String leaderId, String protocol, List<JoinGroupResponseMember> members, boolean skipAssignment) {
        TreeMap<String, String> urls = new TreeMap<>();
        Map<String, String> identities = new HashMap<>();
        for (JoinGroupResponseMember member : members) {
            String json = new String(member.metadata(), StandardCharsets.UTF_8);
            identities.put(member.memberId(), json);
            if (field(json, "master_eligibility").equals("true")) {
                String url = field(json, "scheme") + "://" + field(json, "host") + ":" + field(json, "port");
                urls.put(url, member.memberId());
            }
        }
        say("lead " + generation().generationId + " " + members.size());
        StringBuilder json = new StringBuilder("{\"version\":1,\"error\":0");
        if (!urls.isEmpty()) {
            String master = urls.firstEntry().getValue();
            json.append(",\"master\":\"").append(master).append('"');
            json.append(",\"master_identity\":").append(identities.get(master));
        }
        byte[] assignment = json.append('}').toString().getBytes(StandardCharsets.UTF_8);
        Map<String, ByteBuffer> all = new HashMap<>();
        identities.keySet().forEach(memberId -> all.put(memberId, ByteBuffer.wrap(assignment)));
        return all;
    }

    @Override
    protected void onJoinComplete(int generation, String memberId, String protocol, ByteBuffer assignment) {
        say("complete " + generation + " " + memberId + " "
            + StandardCharsets.UTF_8.decode(assignment.duplicate()));
    }

    /** Returns a field of a flat JSON object, without its quotes; whatever wrote it may put spaces anywhere. */
    private static String field(String json, String name) {
        int start = json.indexOf(':', json.indexOf('"' + name + '"')) + 1;
        int end = start;
        while (end < json.length() && ",}".indexOf(json.charAt(end)) < 0) {
            end++;
        }
        return json.substring(start, end).trim().replace("\"", "");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void pollOnce() {
        ensureActiveGroup();
        pollHeartbeat(time.milliseconds());
        client.poll(time.timer(RETRY_MS));
    }

    private static ConsumerNetworkClient network(List<String> servers, Metrics metrics) {
        LogContext log = new LogContext();
        Metadata metadata = new Metadata(RETRY_MS, 10 * RETRY_MS, 300_000, log, new ClusterResourceListeners());
        metadata.bootstrap(ClientUtils.parseAndValidateAddresses(servers, "use_all_dns_ips"));
        PlaintextChannelBuilder channels = new PlaintextChannelBuilder(null);
        channels.configure(new HashMap<>());
        Selector selector = new Selector(540_000, metrics, Time.SYSTEM, "sr", channels, log);
        int inFlight = 100, buffer = CommonClientConfigs.SEND_BUFFER_LOWER_BOUND, requestMs = 15_000;
        NetworkClient client = new NetworkClient(
            selector, metadata, "java-sr", inFlight, RETRY_MS, 10 * RETRY_MS, buffer, buffer, requestMs,
            1_000, 5_000, Time.SYSTEM, true, new ApiVersions(), log, MetadataRecoveryStrategy.NONE);
        return new ConsumerNetworkClient(
            log, client, metadata, Time.SYSTEM, RETRY_MS, requestMs, Integer.MAX_VALUE);
    }

    private static LinkedBlockingQueue<String> commands() {
        LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = input.readLine(); line != null; line = input.readLine()) {
                    commands.add(line);
                }
            } catch (java.io.IOException error) {
                say("error " + error);
            }
            commands.add("close");
        });
        reader.setDaemon(true);
        reader.start();
        return commands;
    }

    public static void main(String[] arguments) {
        List<String> servers = new ArrayList<>(List.of(arguments[0].split(",")));
        String identity = "{\"version\":1,\"host\":\"" + arguments[2] + "\",\"port\":" + arguments[3]
            + ",\"master_eligibility\":true,\"scheme\":\"http\",\"leader\":false}";
        Metrics metrics = new Metrics();
        SrMember member = new SrMember(network(servers, metrics), metrics, arguments[1], identity);
        LinkedBlockingQueue<String> commands = commands();
        String command = null;
        while (!"close".equals(command)) {
            if ("rejoin".equals(command)) {
                member.requestRejoin("the test asked for it");
            }
            try {
                member.pollOnce();
            } catch (RuntimeException error) {
                say("error " + error);
            }
            command = commands.poll();
        }
        member.close();
        say("closed");
    }
}
