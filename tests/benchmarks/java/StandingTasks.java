import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A connector whose tasks only write down when they start and have stopped, by the machine's clock. */
public class StandingTasks extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Standing.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return IntStream.range(0, most)
                .mapToObj(number -> Map.of("ledger", settings.get("ledger"), "number", String.valueOf(number)))
                .toList();
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("ledger", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the file to write to");
    }

    @Override
    public String version() {
        return "1";
    }

    /** One task. */
    public static class Standing extends SourceTask {
        private Map<String, String> settings;

        @Override
        public void start(Map<String, String> given) {
            settings = given;
            write("start");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(50);
            return null;
        }

        @Override
        public void stop() {
            write("stop");
        }

        @Override
        public String version() {
            return "1";
        }

        private void write(String what) {
            String line = what + " " + settings.get("number") + " " + ProcessHandle.current().pid() + " " + System.currentTimeMillis() + "\n";
            try {
                Files.writeString(Path.of(settings.get("ledger")), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }
    }
}
