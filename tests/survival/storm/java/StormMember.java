import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One member of the storm, as python_member.py. Arguments: protocol, servers, group, topic, name. */
public final class StormMember {
    private static volatile boolean leaves = false;

    public static void main(String[] arguments) throws Exception {
        String protocol = arguments[0];
        String topic = arguments[3];
        String name = arguments[4];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("group.id", arguments[2]);
        settings.put("group.protocol", protocol);
        settings.put("client.id", name);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "50");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (protocol.equals("classic")) {
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            leaves = true;
            consumer.wakeup();
            try {
                main.join(20_000);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(Set.of(topic));
        long number = 0;
        Set<Integer> had = new TreeSet<>();
        while (!leaves) {
            Map<Integer, Long> read = new TreeMap<>();
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    read.put(record.partition(), record.offset() + 1);
                }
            } catch (WakeupException error) {
                continue;
            } catch (RuntimeException error) {
                say("error", "\"error\": " + quoted(error));
                continue;
            }
            Set<Integer> owned = new TreeSet<>();
            consumer.assignment().forEach(each -> owned.add(each.partition()));
            if (!owned.equals(had)) {
                had = owned;
                say("owns", "\"partitions\": " + owned);
            }
            if (read.isEmpty()) {
                continue;
            }
            number++;
            StringBuilder offsets = new StringBuilder();
            Map<TopicPartition, OffsetAndMetadata> given = new HashMap<>();
            for (Map.Entry<Integer, Long> each : read.entrySet()) {
                offsets.append(offsets.isEmpty() ? "" : ", ").append('"').append(each.getKey()).append("\": ").append(each.getValue());
                given.put(new TopicPartition(topic, each.getKey()), new OffsetAndMetadata(each.getValue(), name + "/" + number));
            }
            say("commit", "\"n\": " + number + ", \"offsets\": {" + offsets + "}");
            try {
                consumer.commitSync(given);
                say("committed", "\"n\": " + number);
            } catch (RuntimeException error) {
                say("refused", "\"n\": " + number + ", \"error\": " + quoted(error));
            }
        }
        consumer.close();
        say("left", "\"n\": " + number);
    }

    private static String quoted(RuntimeException error) {
        String text = error.toString().replaceAll("[^ -~]|[\"\\\\]", " ");
        return "\"" + text.substring(0, Math.min(200, text.length())) + "\"";
    }

    private static void say(String what, String more) {
        System.out.println("{\"at\": " + System.currentTimeMillis() + ", \"what\": \"" + what + "\", " + more + "}");
        System.out.flush();
    }
}
