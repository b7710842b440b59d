import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClassicGroupsOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberAssignment;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * All that Kafka's AdminClient asks of groups, on groups of one kind in each of their states. A line of input is the
 * bootstrap servers, the kind (classic or consumer) and the name that groups and topics begin with; the answer is one line with
 * all that was answered, without what differs from run to run, separated by tabs.
 */
public class GroupAdmin {
    private static final Duration SHORT = Duration.ofMillis(50);
    private static final long PATIENCE_S = 60;
    private static final ConsumerRebalanceListener LISTENER = new ConsumerRebalanceListener() {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) { }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) { }
    };

    private final Admin admin;
    private final String servers;
    private final String kind;
    private final String name;
    private final List<String> answers = new ArrayList<>();

    private GroupAdmin(String servers, String kind, String name) {
        this.servers = servers;
        this.kind = kind;
        this.name = name;
        this.admin = Admin.create(Map.of("bootstrap.servers", servers));
    }

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            var run = new GroupAdmin(words[0], words[1], words[2]);
            try {
                run.all();
            } catch (Throwable failure) {
                run.answers.add("failed: " + failure + " " + List.of(failure.getStackTrace()));
            }
            run.admin.close();
            System.out.println(String.join("\t", run.answers).replace("\n", " | "));
        }
    }

    // ---- asking

    /** Adds an answer, or the error that came in its place. */
    private <T> void ask(String what, Future<T> future, Function<T, Object> shown) throws Exception {
        String said;
        try {
            said = String.valueOf(shown.apply(future.get(PATIENCE_S, TimeUnit.SECONDS)));
        } catch (ExecutionException error) {
            said = error.getCause().getClass().getSimpleName();
        } catch (TimeoutException error) {
            said = "no answer";
        }
        answers.add(what + ": " + said);
    }

    private KafkaConsumer<String, String> join(String group, String client, String topic, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", servers, "group.id", group, "client.id", client, "group.protocol", kind,
            "auto.offset.reset", "earliest", "enable.auto.commit", false, "metadata.max.age.ms", 500));
        if (kind.equals("classic")) {
            settings.putAll(Map.of("heartbeat.interval.ms", 200, "session.timeout.ms", 30_000));
        }
        settings.putAll(more);
        var made = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        // with a listener, a member that was removed joins again only once a poll has told it of the loss
        made.subscribe(List.of(topic), LISTENER);
        return made;
    }

    private static void until(List<KafkaConsumer<String, String>> consumers, List<Integer> sizes) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        List<Integer> found = List.of();
        while (!found.equals(sizes)) {
            if (System.nanoTime() > until) {
                throw new AssertionError("not in time: " + sizes + ", but " + found);
            }
            found = new ArrayList<>();
            for (var each : consumers) {
                each.poll(SHORT);
                found.add(each.assignment().size());
            }
        }
    }

    // ---- showing

    private static Object partitions(Collection<TopicPartition> given) {
        return given.stream().map(TopicPartition::toString).sorted().collect(Collectors.toList());
    }

    private static Object offsets(Map<TopicPartition, OffsetAndMetadata> given) {
        var sorted = new TreeMap<String, Object>();
        given.forEach((partition, offset) -> sorted.put(partition.toString(),
            offset == null ? "none" : offset.offset() + " " + offset.metadata()));
        return sorted;
    }

    private Object listed(Collection<GroupListing> found) {
        return found.stream().filter(each -> each.groupId().startsWith(name))
            .map(each -> each.groupId() + " " + each.type() + " " + each.groupState() + " '" + each.protocol() + "' "
                + each.isSimpleConsumerGroup())
            .sorted().collect(Collectors.toList());
    }

    private static Object members(Collection<MemberDescription> found) {
        return found.stream().map(each -> {
            boolean named = each.consumerId() != null && !each.consumerId().isEmpty();
            return each.clientId() + " " + named + " " + each.groupInstanceId() + " " + each.host().replaceAll("[0-9.]+", "host")
                + " " + partitions(each.assignment().topicPartitions())
                + " " + each.targetAssignment().map(MemberAssignment::topicPartitions).map(GroupAdmin::partitions)
                + " " + each.memberEpoch() + " " + each.upgraded();
        }).sorted().collect(Collectors.toList());
    }

    private void describe(String moment, String group) throws Exception {
        var options = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        ask(moment + ", describeConsumerGroups", admin.describeConsumerGroups(List.of(group), options).describedGroups().get(group),
            found -> found.groupState() + " " + found.type() + " '" + found.partitionAssignor() + "' " + found.isSimpleConsumerGroup()
                + " " + (found.coordinator() != null) + " " + sorted(found.authorizedOperations()) + " " + found.groupEpoch() + " "
                + found.targetAssignmentEpoch() + " " + members(found.members()));
        ask(moment + ", describeClassicGroups",
            admin.describeClassicGroups(List.of(group), new DescribeClassicGroupsOptions().includeAuthorizedOperations(true))
                .describedGroups().get(group),
            found -> found.state() + " '" + found.protocol() + "' '" + found.protocolData() + "' " + found.isSimpleConsumerGroup()
                + " " + sorted(found.authorizedOperations()) + " " + members(found.members()));
    }

    private static Object sorted(Collection<?> given) {
        return given == null ? null : new TreeSet<>(given.stream().map(Object::toString).toList());
    }

    private void list(String moment) throws Exception {
        ask(moment + ", listGroups", admin.listGroups().all(), this::listed);
        for (GroupType type : List.of(GroupType.CLASSIC, GroupType.CONSUMER)) {
            ask(moment + ", listGroups of type " + type,
                admin.listGroups(new ListGroupsOptions().withTypes(Set.of(type))).all(), this::listed);
        }
        for (GroupState state : List.of(GroupState.STABLE, GroupState.EMPTY, GroupState.ASSIGNING, GroupState.DEAD)) {
            ask(moment + ", listGroups in state " + state,
                admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(state))).all(), this::listed);
        }
        ask(moment + ", listGroups of type and state",
            admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)).inGroupStates(Set.of(GroupState.EMPTY))).all(),
            this::listed);
        ask(moment + ", listGroups of protocols",
            admin.listGroups(new ListGroupsOptions().withProtocolTypes(Set.of("", "consumer"))).all(), this::listed);
        ask(moment + ", listGroups for consumers", admin.listGroups(ListGroupsOptions.forConsumerGroups()).all(), this::listed);
    }

    private void offsetsOf(String moment, String group, Collection<TopicPartition> partitions) throws Exception {
        ask(moment + ", listConsumerGroupOffsets", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata(),
            GroupAdmin::offsets);
        var specs = Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(partitions));
        ask(moment + ", listConsumerGroupOffsets of some",
            admin.listConsumerGroupOffsets(specs, new ListConsumerGroupOffsetsOptions().requireStable(true))
                .partitionsToOffsetAndMetadata(group), GroupAdmin::offsets);
    }

    private void alter(String what, String group, Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
        var result = admin.alterConsumerGroupOffsets(group, offsets);
        for (var each : new TreeSet<>(offsets.keySet().stream().map(TopicPartition::toString).toList())) {
            var partition = offsets.keySet().stream().filter(one -> one.toString().equals(each)).findFirst().get();
            ask("alterConsumerGroupOffsets " + what + " " + each, result.partitionResult(partition), found -> "done");
        }
    }

    private void deleteOffsets(String what, String group, TopicPartition... partitions) throws Exception {
        var result = admin.deleteConsumerGroupOffsets(group, Set.of(partitions));
        ask("deleteConsumerGroupOffsets " + what, result.all(), found -> "done");
        for (var each : partitions) {
            ask("deleteConsumerGroupOffsets " + what + " " + each, result.partitionResult(each), found -> "done");
        }
    }

    private void remove(String what, String group, RemoveMembersFromConsumerGroupOptions options) throws Exception {
        ask("removeMembersFromConsumerGroup " + what, admin.removeMembersFromConsumerGroup(group, options).all(), found -> "done");
    }

    private void change(String group, OpType type, String key, String value) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        var asked = List.of(new AlterConfigOp(new ConfigEntry(key, value), type));
        ask(type + " " + key + "=" + value, admin.incrementalAlterConfigs(Map.of(resource, asked)).all(), found -> "done");
    }

    /** Waits for what a broker learns of a change from its controller, and tells all settings then. */
    private void settings(String moment, String group, String session) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (System.nanoTime() < end) {
            var now = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("consumer.session.timeout.ms");
            if (now == null || session.equals(now.value())) break;
            Thread.sleep(20);
        }
        ask(moment + ", describeConfigs", admin.describeConfigs(List.of(resource)).all(), found ->
            found.get(resource).entries().stream().filter(each -> each.name().startsWith("consumer."))
                .map(each -> each.name() + "=" + each.value() + " " + each.source() + " " + each.type() + " " + each.isReadOnly()
                    + " " + each.isSensitive())
                .sorted().collect(Collectors.toList()));
    }

    // ---- the course

    private void all() throws Exception {
        String group = name + "-g";
        String topic = name + "-t";
        String other = name + "-o";
        admin.createTopics(List.of(new NewTopic(topic, 4, (short) 1), new NewTopic(other, 2, (short) 1))).all().get();
        var first = new TopicPartition(topic, 0);
        var gone = new TopicPartition(topic, 9);
        var beside = new TopicPartition(other, 1);
        var nowhere = new TopicPartition(name + "-nowhere", 0);
        var offsets = Map.of(first, new OffsetAndMetadata(3, "note"), beside, new OffsetAndMetadata(5));

        // createTopics answers before group coordinators know of a topic: a group that begins without it has an epoch more
        try (var scout = join("scout-" + name, "scout", topic, Map.of())) {
            until(List.of(scout), List.of(4));
        }
        describe("none yet", group);
        offsetsOf("none yet", group, List.of(first));
        remove("of none", group, new RemoveMembersFromConsumerGroupOptions());
        deleteOffsets("of none", group, first);
        ask("deleteConsumerGroups of none", admin.deleteConsumerGroups(List.of(group)).all(), found -> "done");

        try (var one = join(group, "a", topic, Map.of("group.instance.id", "one"))) {
            until(List.of(one), List.of(4));
            try (var two = join(group, "b", topic, Map.of())) {
                until(List.of(one, two), List.of(2, 2));
                list("two members");
                describe("two members", group);
                alter("with members", group, offsets);
                one.commitSync(Map.of(first, new OffsetAndMetadata(3, "note"), beside, new OffsetAndMetadata(5)));
                offsetsOf("two members", group, List.of(first, gone, beside, nowhere));
                deleteOffsets("with members", group, first);
                deleteOffsets("with members, of another topic", group, beside);
                deleteOffsets("with members, of two", group, first, beside);
                ask("deleteConsumerGroups with members", admin.deleteConsumerGroups(List.of(group)).all(), found -> "done");
                remove("unknown", group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody"))));
                settings("as the broker's", group, "45000");
                for (String each : List.of("50000", "1", "999999", "many", "")) {
                    change(group, OpType.SET, "consumer.session.timeout.ms", each);
                    change(group, OpType.SET, "consumer.heartbeat.interval.ms", each);
                }
                change(group, OpType.SET, "no.such", "1");
                change(group, OpType.APPEND, "consumer.session.timeout.ms", "1");
                settings("its own", group, "50000");
                change(group, OpType.DELETE, "consumer.session.timeout.ms", "");
                change(group, OpType.DELETE, "consumer.heartbeat.interval.ms", "");
                settings("the broker's again", group, "45000");
            }
            until(List.of(one), List.of(4));
        }
        // a static member goes, and stays a member
        describe("a static member away", group);
        remove("static", group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("one"))));
        remove("static, again", group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("one"))));
        describe("empty", group);
        list("empty");
        alter("empty", group, Map.of(first, new OffsetAndMetadata(1), beside, new OffsetAndMetadata(2, "two"),
            gone, new OffsetAndMetadata(1), nowhere, new OffsetAndMetadata(1)));
        offsetsOf("altered", group, List.of(first, beside));
        deleteOffsets("of an empty group", group, first, gone);
        offsetsOf("deleted", group, List.of(first, beside));

        try (var three = join(group, "c", topic, Map.of()); var four = join(group, "d", topic, Map.of("group.instance.id", "four"))) {
            until(List.of(three, four), List.of(2, 2));
            remove("all", group, new RemoveMembersFromConsumerGroupOptions());
        }
        remove("what is left", group, new RemoveMembersFromConsumerGroupOptions());
        describe("empty again", group);
        ask("deleteConsumerGroups", admin.deleteConsumerGroups(List.of(group, name + "-none")).all(), found -> "done");
        describe("deleted", group);

        // one that offsets alone make
        String simple = name + "-simple";
        alter("of a new group", simple, Map.of(first, new OffsetAndMetadata(7)));
        list("simple");
        describe("simple", simple);
        offsetsOf("simple", simple, List.of(first));
        remove("of a simple group", simple, new RemoveMembersFromConsumerGroupOptions());
        ask("deleteConsumerGroups of a simple one", admin.deleteConsumerGroups(List.of(simple)).all(), found -> "done");
        list("the end");
    }
}
