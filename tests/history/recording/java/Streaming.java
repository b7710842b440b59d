import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * An instance of a Kafka Streams application that counts what comes by key, with a repartition topic; each argument but the
 * last is a setting, the last one names the topic it reads.
 */
public final class Streaming {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int i = 0; i < arguments.length - 1; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        settings.put("default.key.serde", Serdes.String().getClass().getName());
        settings.put("default.value.serde", Serdes.String().getClass().getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[arguments.length - 1])
            .selectKey((key, value) -> value.substring(value.length() - 1))
            .groupByKey()
            .count();
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("close")) {
                streams.close(Duration.ofSeconds(20));
                System.out.println("closed");
                break;
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
