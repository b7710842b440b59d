import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Writes and reads record batches with Kafka's own classes, one JSON object per line.
 *
 * {"compression": 0, "base": 0, "epoch": -1, "producer": -1, "producer_epoch": -1, "sequence": -1,
 *  "transactional": false, "log_time": null, "horizon": null,
 *  "records": [[offset, timestamp, hex or null, hex or null, [[name, hex or null]]]]}   ->  hex
 * {"read": "hex"}   ->  a list of the records as above, after a check of each batch
 */
public class BatchBytes {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            out.println(question.has("read") ? read(question) : build(question));
        }
    }

    private static String build(JsonNode asked) {
        boolean logTime = !asked.get("log_time").isNull();
        Compression compression = Compression.of(CompressionType.forId(asked.get("compression").asInt())).build();
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 16), RecordBatch.MAGIC_VALUE_V2, compression,
            logTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME, asked.get("base").asLong(),
            logTime ? asked.get("log_time").asLong() : RecordBatch.NO_TIMESTAMP, asked.get("producer").asLong(),
            (short) asked.get("producer_epoch").asInt(), asked.get("sequence").asInt(),
            asked.get("transactional").asBoolean(), false, asked.get("epoch").asInt(), 1 << 24,
            asked.get("horizon").isNull() ? RecordBatch.NO_TIMESTAMP : asked.get("horizon").asLong());
        for (JsonNode each : asked.get("records")) {
            Header[] headers = new Header[each.get(4).size()];
            for (int i = 0; i < headers.length; i++) {
                JsonNode header = each.get(4).get(i);
                headers[i] = new RecordHeader(header.get(0).asText(), data(header.get(1)));
            }
            builder.appendWithOffset(each.get(0).asLong(), each.get(1).asLong(), data(each.get(2)),
                data(each.get(3)), headers);
        }
        ByteBuffer buffer = builder.build().buffer();
        return HexFormat.of().formatHex(bytes(buffer));
    }

    private static String read(JsonNode question) throws Exception {
        ArrayNode found = JSON.createArrayNode();
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data(question.get("read"))));
            for (RecordBatch batch : records.batches()) {
                ((DefaultRecordBatch) batch).ensureValid();
                for (Record record : batch) {
                    ArrayNode row = found.addArray();
                    row.add(record.offset()).add(record.timestamp()).add(hex(record.key())).add(hex(record.value()));
                    ArrayNode headers = row.addArray();
                    for (Header header : record.headers()) {
                        headers.addArray().add(header.key()).add(
                            header.value() == null ? null : HexFormat.of().formatHex(header.value()));
                    }
                }
            }
        } catch (RuntimeException refused) {
            ObjectNode answer = JSON.createObjectNode();
            return answer.put("refused", refused.toString()).toString();
        }
        return JSON.writeValueAsString(found);
    }

    private static byte[] data(JsonNode hex) {
        return hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? null : HexFormat.of().formatHex(bytes(buffer));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
