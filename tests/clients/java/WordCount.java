import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * One instance of a Kafka Streams application that counts words exactly once: a repartition topic, a state store and
 * its changelog. Its arguments: bootstrap servers, application id, state directory, input and output topic. It answers
 * "state" with its state and how many tasks it has, "words" with how many words its store has, and ends on "close".
 */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        var builder = new StreamsBuilder();
        builder.stream(arguments[3], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[4], Produced.with(Serdes.String(), Serdes.String()));
        var settings = new Properties();
        settings.putAll(Map.ofEntries(
            Map.entry("bootstrap.servers", arguments[0]),
            Map.entry("application.id", arguments[1]),
            Map.entry("state.dir", Path.of(arguments[2]).toString()),
            Map.entry("processing.guarantee", "exactly_once_v2"),
            Map.entry("group.protocol", "classic"),
            Map.entry("default.key.serde", Serdes.String().getClass().getName()),
            Map.entry("default.value.serde", Serdes.String().getClass().getName()),
            // every count is written out
            Map.entry("statestore.cache.max.bytes", "0"),
            Map.entry("commit.interval.ms", "100"),
            Map.entry("consumer.session.timeout.ms", "8000"),
            Map.entry("consumer.heartbeat.interval.ms", "200"),
            Map.entry("consumer.auto.offset.reset", "earliest"),
            // an instance that was killed leaves its last transaction open for so long
            Map.entry("producer.transaction.timeout.ms", "8000")
        ));
        var streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            switch (line) {
                case "state" -> {
                    int tasks = streams.metadataForLocalThreads().stream()
                        .mapToInt(thread -> thread.activeTasks().size()).sum();
                    System.out.println(streams.state() + " " + tasks);
                }
                case "words" -> {
                    var store = streams.store(StoreQueryParameters.fromNameAndType(
                        "counts", QueryableStoreTypes.<String, Long>keyValueStore()));
                    int words = 0;
                    try (var all = store.all()) {
                        for (; all.hasNext(); all.next()) {
                            words++;
                        }
                    }
                    System.out.println(words);
                }
                case "close" -> {
                    System.out.println(streams.close(Duration.ofSeconds(20)));
                    return;
                }
                default -> throw new IllegalArgumentException("there is no command " + line);
            }
        }
        streams.close(Duration.ofSeconds(20));
    }
}
