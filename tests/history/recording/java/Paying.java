import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A consumer that commits in transactions only, twice a second; each argument but the last is a setting, the last one names its
 * topics. It writes into "quiet", and gives up a transaction that fails.
 */
public final class Paying {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        Properties writing = new Properties();
        for (int i = 0; i < arguments.length - 1; i++) {
            String[] pair = arguments[i].split("=", 2);
            (pair[0].equals("transactional.id") ? writing : settings).put(pair[0], pair[1]);
        }
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        writing.put("bootstrap.servers", settings.get("bootstrap.servers"));
        writing.put("key.serializer", ByteArraySerializer.class.getName());
        writing.put("value.serializer", ByteArraySerializer.class.getName());
        ConcurrentLinkedQueue<String> orders = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> read(orders));
        reader.setDaemon(true);
        reader.start();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            producer.initTransactions();
            consumer.subscribe(Arrays.asList(arguments[arguments.length - 1].split(",")));
            System.out.println("ready");
            while (!"close".equals(orders.poll())) {
                var records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                try {
                    producer.send(new ProducerRecord<>("quiet", new byte[1]));
                    var offsets = new HashMap<org.apache.kafka.common.TopicPartition, OffsetAndMetadata>();
                    for (var partition : records.partitions()) {
                        var last = records.records(partition).get(records.records(partition).size() - 1);
                        offsets.put(partition, new OffsetAndMetadata(last.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (KafkaException error) {
                    producer.abortTransaction();
                }
            }
        }
        System.out.println("closed");
    }

    private static void read(ConcurrentLinkedQueue<String> orders) {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                orders.add(line);
            }
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        Runtime.getRuntime().halt(1);
    }
}
