import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What Kafka's own clients do with a broker, many scenarios in one process. Its argument: bootstrap servers.
 * A line of input is a scenario and the name that its topics and groups begin with; it answers "ok", or
 * "failed" and why.
 */
public class Scenarios {
    private static final Duration SHORT = Duration.ofMillis(50);
    private static final long PATIENCE_S = 60;

    private final String servers;
    private final Admin admin;

    private Scenarios(String servers) {
        this.servers = servers;
        this.admin = Admin.create(Map.of("bootstrap.servers", servers));
    }

    public static void main(String[] arguments) throws Exception {
        var scenarios = new Scenarios(arguments[0]);
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String said = "ok";
            try {
                scenarios.run(words[0], words[1]);
            } catch (Throwable failure) {
                var text = new StringWriter();
                failure.printStackTrace(new PrintWriter(text));
                said = "failed " + text.toString().replace("\n", " | ");
            }
            System.out.println(said);
        }
        scenarios.admin.close();
    }

    private void run(String scenario, String name) throws Exception {
        switch (scenario) {
            case "range" -> share(name, RangeAssignor.class);
            case "roundrobin" -> share(name, RoundRobinAssignor.class);
            case "sticky" -> share(name, StickyAssignor.class);
            case "cooperative-sticky" -> share(name, CooperativeStickyAssignor.class);
            case "compression" -> compression(name);
            case "static" -> staticMembers(name);
            case "transactions" -> transactions(name, "classic");
            case "consumer-transactions" -> transactions(name, "consumer");
            case "consumer-listeners" -> consumerListeners(name);
            case "fencing" -> fencing(name);
            case "topics" -> topics(name);
            case "records" -> records(name);
            case "groups" -> groups(name);
            case "transactional-ids" -> transactionalIds(name);
            case "cluster" -> cluster();
            case "not-served" -> notServed(name);
            case "consumer-protocol" -> consumerProtocol(name);
            case "consumer-pause" -> consumerPause(name);
            case "migration" -> migration(name);
            default -> throw new IllegalArgumentException("there is no scenario " + scenario);
        }
    }

    // ---- what the scenarios share

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void same(Object expected, Object found) {
        check(expected.equals(found), "expected " + expected + ", found " + found);
    }

    private static <T> T done(Future<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static void fails(Class<? extends Throwable> expected, Future<?> future) throws Exception {
        try {
            Object found = done(future);
            throw new AssertionError("expected " + expected.getSimpleName() + ", found " + found);
        } catch (ExecutionException error) {
            check(expected.isInstance(error.getCause()), "expected " + expected + ", found " + error.getCause());
        }
    }

    private static void eventually(String what, BooleanSupplier condition) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < until, "not in time: " + what);
        }
    }

    private KafkaConsumer<String, String> consumer(String group, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", servers,
            "group.id", group,
            "session.timeout.ms", 30_000,
            "heartbeat.interval.ms", 200,
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest"));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", servers, "linger.ms", 0));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private void create(String topic, int partitions) throws Exception {
        done(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all());
    }

    private static List<String> taken(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        eventually(count + " records", () -> {
            consumer.poll(SHORT).forEach(record -> values.add(record.value()));
            return values.size() >= count;
        });
        same(count, values.size());
        return values;
    }

    private List<String> all(String topic, String isolation, int count) {
        try (var reader = consumer("reader", Map.of("isolation.level", isolation))) {
            var partition = new TopicPartition(topic, 0);
            reader.assign(List.of(partition));
            reader.seekToBeginning(List.of(partition));
            return taken(reader, count);
        }
    }

    private static boolean has(KafkaConsumer<?, ?> consumer, int count) {
        consumer.poll(SHORT);
        return consumer.assignment().size() == count;
    }

    // ---- consumers of one group

    private void share(String name, Class<?> assignor) throws Exception {
        create(name, 6);
        Map<String, Object> settings = Map.of(
            "partition.assignment.strategy", assignor.getName(), "metadata.max.age.ms", 500);
        try (var first = consumer(name, settings); var second = consumer(name, settings)) {
            first.subscribe(List.of(name));
            eventually("the first has all", () -> has(first, 6));
            second.subscribe(List.of(name));
            eventually("three and three", () -> has(first, 3) & has(second, 3));
            Set<TopicPartition> together = new HashSet<>(first.assignment());
            together.addAll(second.assignment());
            same(6, together.size());
            var group = done(admin.describeConsumerGroups(List.of(name)).describedGroups().get(name));
            same(GroupState.STABLE, group.groupState());
            same(2, group.members().size());
            second.unsubscribe();
            eventually("the first has all again", () -> has(first, 6));
            done(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(8))).all());
            eventually("what the topic has grown by", () -> has(first, 8));
            first.commitSync(Map.of(new TopicPartition(name, 5), new OffsetAndMetadata(3, "note")));
            var committed = first.committed(Set.of(new TopicPartition(name, 5)));
            same(new OffsetAndMetadata(3, "note"), committed.get(new TopicPartition(name, 5)));
        }
        var left = done(admin.describeConsumerGroups(List.of(name)).describedGroups().get(name));
        same(GroupState.EMPTY, left.groupState());
    }

    private void staticMembers(String name) throws Exception {
        create(name, 4);
        Map<String, Object> settings = Map.of("group.instance.id", "one");
        try (var first = consumer(name, settings)) {
            first.subscribe(List.of(name));
            eventually("all", () -> has(first, 4));
        }
        try (var second = consumer(name, settings); var third = consumer(name, settings)) {
            second.subscribe(List.of(name));
            eventually("all again", () -> has(second, 4));
            same(1, second.groupMetadata().generationId());
            third.subscribe(List.of(name));
            eventually("taken over", () -> has(third, 4));
            eventually("fenced", () -> {
                try {
                    second.poll(SHORT);
                    return false;
                } catch (FencedInstanceIdException expected) {
                    return true;
                }
            });
        }
        var members = done(admin.describeConsumerGroups(List.of(name)).describedGroups().get(name)).members();
        same(Optional.of("one"), members.iterator().next().groupInstanceId());
        var removal = new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("one")));
        done(admin.removeMembersFromConsumerGroup(name, removal).all());
        var group = done(admin.describeConsumerGroups(List.of(name)).describedGroups().get(name));
        same(GroupState.EMPTY, group.groupState());
        fails(UnknownMemberIdException.class, admin.removeMembersFromConsumerGroup(name, removal).all());
    }

    // ---- records and transactions

    private void compression(String name) throws Exception {
        create(name, 1);
        List<String> sent = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (var producer = producer(Map.of("compression.type", codec))) {
                for (int number = 0; number < 50; number++) {
                    sent.add(codec + number);
                    producer.send(new ProducerRecord<>(name, "key", codec + number));
                }
            }
        }
        same(sent, all(name, "read_committed", 250));
    }

    private void transactions(String name, String protocol) throws Exception {
        create(name + "-in", 1);
        create(name + "-out", 1);
        try (var source = producer(Map.of())) {
            for (int number = 0; number < 6; number++) {
                source.send(new ProducerRecord<>(name + "-in", "record" + number));
            }
        }
        Map<String, Object> reading = Map.of("isolation.level", "read_committed", "max.poll.records", 2);
        var partition = new TopicPartition(name + "-in", 0);
        try (var producer = producer(Map.of("transactional.id", name));
                var consumer = protocol.equals("consumer") ? newConsumer(name, reading) : consumer(name, reading)) {
            producer.initTransactions();
            consumer.subscribe(List.of(name + "-in"));
            for (String outcome : List.of("kept", "dropped", "kept")) {
                List<String> values = taken(consumer, 2);
                producer.beginTransaction();
                for (String value : values) {
                    done(producer.send(new ProducerRecord<>(name + "-out", value + outcome)));
                }
                var offset = Map.of(partition, new OffsetAndMetadata(consumer.position(partition)));
                producer.sendOffsetsToTransaction(offset, consumer.groupMetadata());
                if (outcome.equals("kept")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                    same(2L, consumer.committed(Set.of(partition)).get(partition).offset());
                }
            }
            same(6L, consumer.committed(Set.of(partition)).get(partition).offset());
        }
        same(List.of("record0kept", "record1kept", "record4kept", "record5kept"),
            all(name + "-out", "read_committed", 4));
        same(6, all(name + "-out", "read_uncommitted", 6).size());
    }

    private void fencing(String name) throws Exception {
        create(name, 1);
        Map<String, Object> settings = Map.of("transactional.id", name);
        try (var first = producer(settings); var second = producer(settings); var third = producer(settings)) {
            first.initTransactions();
            first.beginTransaction();
            done(first.send(new ProducerRecord<>(name, "lost")));
            second.initTransactions();
            try {
                first.commitTransaction();
                throw new AssertionError("the first was not fenced");
            } catch (ProducerFencedException expected) {
                same(ProducerFencedException.class, expected.getClass());
            }
            second.beginTransaction();
            done(second.send(new ProducerRecord<>(name, "kept")));
            second.commitTransaction();
            done(admin.fenceProducers(List.of(name)).all());
            second.beginTransaction();
            fails(Exception.class, second.send(new ProducerRecord<>(name, "fenced")));
            third.initTransactions();
            third.beginTransaction();
            done(third.send(new ProducerRecord<>(name, "third")));
            third.commitTransaction();
        }
        same(List.of("kept", "third"), all(name, "read_committed", 2));
    }

    private void transactionalIds(String name) throws Exception {
        create(name, 1);
        var partition = new TopicPartition(name, 0);
        try (var producer = producer(Map.of("transactional.id", name))) {
            producer.initTransactions();
            producer.beginTransaction();
            done(producer.send(new ProducerRecord<>(name, "open")));
            var listed = done(admin.listTransactions().all()).stream()
                .filter(each -> each.transactionalId().equals(name)).toList();
            same(1, listed.size());
            same(TransactionState.ONGOING, listed.get(0).state());
            var described = done(admin.describeTransactions(List.of(name)).description(name));
            same(Set.of(partition), described.topicPartitions());
            var active = done(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers();
            same(described.producerId(), active.get(0).producerId());
            check(active.get(0).currentTransactionStartOffset().isPresent(), "an open transaction");
            producer.abortTransaction();
            same(TransactionState.COMPLETE_ABORT, completed(name));
        }
    }

    private TransactionState completed(String name) throws Exception {
        TransactionState[] state = new TransactionState[1];
        eventually("completed", () -> {
            try {
                state[0] = done(admin.describeTransactions(List.of(name)).description(name)).state();
            } catch (Exception error) {
                throw new AssertionError(error);
            }
            return state[0] != TransactionState.PREPARE_ABORT;
        });
        return state[0];
    }

    // ---- administration

    private void topics(String name) throws Exception {
        var made = admin.createTopics(List.of(
            new NewTopic(name, Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "5000"))));
        same(2, done(made.numPartitions(name)));
        same("5000", done(made.config(name)).get("retention.ms").value());
        fails(TopicExistsException.class, admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all());
        done(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all());
        fails(InvalidPartitionsException.class,
            admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all());
        var described = done(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
        same(5, described.partitions().size());
        var byId = done(admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds());
        same(name, byId.get(described.topicId()).name());
        check(done(admin.listTopics().names()).contains(name), "it is listed");

        var resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        done(admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "7000"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all());
        var config = done(admin.describeConfigs(List.of(resource)).all()).get(resource);
        same("7000", config.get("retention.ms").value());
        same("delete,compact", config.get("cleanup.policy").value());
        same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("retention.ms").source());
        done(admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE)))).all());
        config = done(admin.describeConfigs(List.of(resource)).all()).get(resource);
        same("604800000", config.get("retention.ms").value());

        done(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).all());
        fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(name)).all());
        fails(UnknownTopicOrPartitionException.class, admin.describeTopics(List.of(name)).allTopicNames());
    }

    private void records(String name) throws Exception {
        create(name, 1);
        var partition = new TopicPartition(name, 0);
        try (var producer = producer(Map.of())) {
            for (long number = 0; number < 10; number++) {
                done(producer.send(new ProducerRecord<>(name, 0, 1_000 + number, null, "v")));
            }
        }
        same(0L, offset(partition, OffsetSpec.earliest()));
        same(10L, offset(partition, OffsetSpec.latest()));
        same(9L, offset(partition, OffsetSpec.maxTimestamp()));
        same(4L, offset(partition, OffsetSpec.forTimestamp(1_004)));
        same(0L, offset(partition, OffsetSpec.earliestLocal()));
        same(-1L, offset(partition, OffsetSpec.latestTiered()));
        var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(7)));
        same(7L, done(deleted.lowWatermarks().get(partition)).lowWatermark());
        same(7L, offset(partition, OffsetSpec.earliest()));
        fails(OffsetOutOfRangeException.class,
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(70))).all());
        try (var reader = consumer(name, Map.of("auto.offset.reset", "none"))) {
            reader.assign(List.of(partition));
            reader.seek(partition, 8);
            same(2, taken(reader, 2).size());
            same(Map.of(partition, 10L), reader.endOffsets(List.of(partition)));
            same(Map.of(partition, 7L), reader.beginningOffsets(List.of(partition)));
        }
    }

    private long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return done(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition)).offset();
    }

    private void groups(String name) throws Exception {
        create(name, 2);
        var one = new TopicPartition(name, 0);
        var two = new TopicPartition(name, 1);
        try (var consumer = consumer(name, Map.of())) {
            consumer.subscribe(List.of(name));
            eventually("all", () -> has(consumer, 2));
            consumer.commitSync(Map.of(one, new OffsetAndMetadata(4)));
            fails(GroupNotEmptyException.class, admin.deleteConsumerGroups(List.of(name)).all());
            fails(UnknownMemberIdException.class,
                admin.alterConsumerGroupOffsets(name, Map.of(one, new OffsetAndMetadata(1))).all());
            fails(Exception.class, admin.deleteConsumerGroupOffsets(name, Set.of(one)).all());
        }
        done(admin.alterConsumerGroupOffsets(name,
            Map.of(one, new OffsetAndMetadata(1), two, new OffsetAndMetadata(2))).all());
        same(Map.of(one, new OffsetAndMetadata(1), two, new OffsetAndMetadata(2)), offsets(name));
        done(admin.deleteConsumerGroupOffsets(name, Set.of(one)).all());
        same(Map.of(two, new OffsetAndMetadata(2)), offsets(name));
        var listed = done(admin.listGroups().all()).stream().map(each -> each.groupId()).collect(Collectors.toSet());
        check(listed.contains(name), "it is listed");
        var classic = done(admin.describeClassicGroups(List.of(name)).describedGroups().get(name));
        same("consumer", classic.protocol());
        var specs = Map.of(name, new ListConsumerGroupOffsetsSpec(), "nobody", new ListConsumerGroupOffsetsSpec());
        same(Set.of(name, "nobody"), done(admin.listConsumerGroupOffsets(specs).all()).keySet());
        done(admin.deleteConsumerGroups(List.of(name)).all());
        fails(GroupIdNotFoundException.class, admin.deleteConsumerGroups(List.of(name)).all());
        fails(GroupIdNotFoundException.class, admin.describeConsumerGroups(List.of(name)).all());
        fails(GroupIdNotFoundException.class, admin.describeClassicGroups(List.of(name)).all());
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets(String group) throws Exception {
        return done(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
    }

    private void cluster() throws Exception {
        var found = admin.describeCluster();
        Collection<Integer> ids = done(found.nodes()).stream().map(node -> node.id()).toList();
        same(Set.of(1, 2, 3), Set.copyOf(ids));
        check(ids.contains(done(found.controller()).id()), "one of them is the controller");
        same(Set.of(1, 2, 3), done(admin.describeLogDirs(ids).allDescriptions()).keySet());
        var features = done(admin.describeFeatures().featureMetadata());
        same((short) 2, features.finalizedFeatures().get("transaction.version").maxVersionLevel());
        var node = new ConfigResource(ConfigResource.Type.BROKER, "1");
        check(done(admin.describeConfigs(List.of(node)).all()).get(node).get("group.max.size") != null, "settings");
        fails(SecurityDisabledException.class, admin.describeAcls(AclBindingFilter.ANY).values());
    }

    // ---- what is not served is said, and at once

    private void notServed(String name) throws Exception {
        create(name, 1);
        fails(UnsupportedVersionException.class, admin.describeDelegationToken().delegationTokens());
        fails(UnsupportedVersionException.class, admin.electLeaders(ElectionType.PREFERRED, null).partitions());
        fails(UnsupportedVersionException.class, admin.listPartitionReassignments().reassignments());
        same(Map.of(), done(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()));
        fails(UnsupportedVersionException.class, admin.unregisterBroker(9).all());
        fails(UnsupportedVersionException.class, admin.removeRaftVoter(1, Uuid.ONE_UUID).all());
    }

    /** Makes a consumer of the new protocol (KIP-848). */
    private KafkaConsumer<String, String> newConsumer(String group, Map<String, Object> more) {
        Map<String, Object> settings = new java.util.HashMap<>(Map.of(
            "bootstrap.servers", servers, "group.id", group, "group.protocol", "consumer",
            "auto.offset.reset", "earliest", "metadata.max.age.ms", 500, "enable.auto.commit", false));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private void consumerProtocol(String name) throws Exception {
        create(name, 6);
        try (var first = newConsumer(name, Map.of("group.instance.id", "one"));
                var second = newConsumer(name, Map.of("group.remote.assignor", "range"))) {
            first.subscribe(List.of(name));
            eventually("the first has all", () -> has(first, 6));
            second.subscribe(List.of(name));
            eventually("three and three", () -> has(first, 3) & has(second, 3));
            Set<TopicPartition> together = new HashSet<>(first.assignment());
            together.addAll(second.assignment());
            same(6, together.size());
            var group = done(admin.describeConsumerGroups(List.of(name)).describedGroups().get(name));
            same(GroupState.STABLE, group.groupState());
            same(2, group.members().size());
            TopicPartition owned = first.assignment().iterator().next();
            first.commitSync(Map.of(owned, new OffsetAndMetadata(3, "note")));
            same(new OffsetAndMetadata(3, "note"), first.committed(Set.of(owned)).get(owned));
            second.unsubscribe();
            eventually("the first has all again", () -> has(first, 6));
            done(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(8))).all());
            eventually("what the topic has grown by", () -> has(first, 8));
            second.subscribe(new org.apache.kafka.clients.consumer.SubscriptionPattern(name + ".*"));
            eventually("four and four", () -> has(first, 4) & has(second, 4));
        }
    }

    /** A partition that is paused is kept, also over a rebalance, and nothing of it is read. */
    private void consumerPause(String name) throws Exception {
        create(name, 2);
        var paused = List.of(new TopicPartition(name, 0));
        try (var reader = newConsumer(name, Map.of()); var writer = producer(Map.of())) {
            reader.subscribe(List.of(name));
            eventually("all", () -> has(reader, 2));
            reader.pause(paused);
            for (int number = 0; number < 6; number++) {
                done(writer.send(new ProducerRecord<>(name, number % 2, "key", "value" + number)));
            }
            same(List.of("value1", "value3", "value5"), taken(reader, 3));
            try (var second = newConsumer(name, Map.of("auto.offset.reset", "latest"))) {
                second.subscribe(List.of(name));
                eventually("one and one", () -> has(reader, 1) & has(second, 1));
            }
            eventually("all again", () -> has(reader, 2));
            reader.resume(reader.paused());
            done(writer.send(new ProducerRecord<>(name, 0, "key", "value6")));
            eventually("the partition that was paused", () -> {
                for (var record : reader.poll(SHORT)) {
                    if (record.value().equals("value6")) {
                        return true;
                    }
                }
                return false;
            });
        }
    }

    private void migration(String name) throws Exception {
        create(name, 6);
        Map<String, Object> settings = Map.of("metadata.max.age.ms", 500);
        try (var classic = consumer(name, settings)) {
            classic.subscribe(List.of(name));
            eventually("the classic one has all", () -> has(classic, 6));
            try (var upgraded = newConsumer(name, Map.of())) {
                upgraded.subscribe(List.of(name));
                eventually("three and three", () -> has(classic, 3) & has(upgraded, 3));
            }
            eventually("all again, in a classic group", () -> has(classic, 6));
            try (var late = consumer(name, settings)) {
                late.subscribe(List.of(name));
                eventually("classic again", () -> has(classic, 3) & has(late, 3));
            }
        }
    }

    /** Listeners hear of what moves in order, a stalled caller loses all, and a double of a static member is refused. */
    private void consumerListeners(String name) throws Exception {
        create(name, 4);
        List<String> heard = new ArrayList<>();
        var fixed = Map.<String, Object>of("group.instance.id", "one");
        try (var holder = newConsumer(name + "-static", fixed); var twin = newConsumer(name + "-static", fixed)) {
            holder.subscribe(List.of(name));
            eventually("the holder has all", () -> has(holder, 4));
            twin.subscribe(List.of(name));
            eventually("the double is refused", () -> {
                try {
                    twin.poll(SHORT);
                    return false;
                } catch (org.apache.kafka.common.errors.UnreleasedInstanceIdException expected) {
                    return true;
                }
            });
        }
        var stalled = Map.<String, Object>of("max.poll.interval.ms", 6_000);
        try (var first = newConsumer(name, stalled); var second = newConsumer(name, Map.of())) {
            first.subscribe(List.of(name), listener("first", heard));
            eventually("the first has all", () -> has(first, 4));
            second.subscribe(List.of(name), listener("second", heard));
            // 4.1.0 may show the assignment one poll before it calls the listener (KAFKA-20106): wait for both
            eventually("two and two, and told so", () -> has(first, 2) & has(second, 2) & heard.size() >= 3);
            same(List.of("first assigned 4", "first revoked 2", "second assigned 2"), heard);
            // its caller does not come: it leaves by itself, and the other one gets everything
            eventually("the second has all", () -> has(second, 4));
            eventually("the first is back", () -> has(first, 2) & has(second, 2));
            check(heard.contains("first lost 2"), "it heard that it lost them: " + heard);
        }
    }

    private static ConsumerRebalanceListener listener(String who, List<String> heard) {
        return new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                note("assigned", partitions);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                note("revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                note("lost", partitions);
            }

            private void note(String what, Collection<TopicPartition> partitions) {
                if (!partitions.isEmpty()) {
                    heard.add(who + " " + what + " " + partitions.size());
                }
            }
        };
    }
}
