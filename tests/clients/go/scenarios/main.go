// What franz-go does with a broker. Its argument: bootstrap servers. A line of input is a scenario, the topic
// (of four partitions, which is there) and the group or transactional id; it answers "ok", or "failed" and why.
// A line that begins with "member" steers a member of a group: see members.go.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	servers   []string
	balancers = map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
)

func main() {
	servers = strings.Split(os.Args[1], ",")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		said, err := "ok", error(nil)
		if words[0] == "member" {
			said, err = steered(words[1:])
		} else {
			err = run(words[0], words[1], words[2])
		}
		if err != nil {
			said = "failed " + strings.ReplaceAll(err.Error(), "\n", " | ")
		}
		fmt.Println(said)
	}
}

func run(scenario, topic, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	switch scenario {
	case "range", "roundrobin", "sticky", "cooperative-sticky":
		return share(ctx, topic, id, kgo.Balancers(balancers[scenario]))
	case "consumer-protocol":
		return share(ctx, topic, id, kgo.ServerSideBalancer())
	case "static":
		return static(ctx, topic, id)
	case "consumer-static":
		return consumerStatic(ctx, topic, id)
	case "consumer-pattern":
		return pattern(ctx, topic, id)
	case "consumer-commits":
		return commits(ctx, topic, id)
	case "consumer-listeners":
		return listeners(ctx, topic, id)
	case "consumer-pause":
		return pause(ctx, topic, id)
	case "consumer-transactions":
		return transactions(ctx, topic, id, kgo.ServerSideBalancer())
	case "compression":
		return compression(ctx, topic, id)
	case "transactions":
		return transactions(ctx, topic, id)
	case "fencing":
		return fencing(ctx, topic, id)
	}
	return fmt.Errorf("there is no scenario %s", scenario)
}

// member is a client in a group, with what it has been given.
type member struct {
	*kgo.Client
	has chan map[int32]bool
}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(servers...))...)
}

func join(ctx context.Context, topic, group string, options ...kgo.Opt) (*member, error) {
	joined := &member{has: make(chan map[int32]bool, 1)}
	joined.has <- map[int32]bool{}
	change := func(given map[string][]int32, owned bool) {
		has := <-joined.has
		for _, partition := range given[topic] {
			if owned {
				has[partition] = true
			} else {
				delete(has, partition)
			}
		}
		joined.has <- has
	}
	assigned := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(given, true) }
	lost := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(given, false) }
	made, err := client(append(options,
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.SessionTimeout(30*time.Second),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(assigned),
		kgo.OnPartitionsRevoked(lost),
		kgo.OnPartitionsLost(lost),
	)...)
	if err != nil {
		return nil, err
	}
	joined.Client = made
	go func() {
		for ctx.Err() == nil && !made.PollFetches(ctx).IsClientClosed() {
		}
	}()
	return joined, nil
}

func (m *member) count() int {
	has := <-m.has
	defer func() { m.has <- has }()
	return len(has)
}

func eventually(ctx context.Context, what string, condition func() bool) error {
	for !condition() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not in time: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func share(ctx context.Context, topic, group string, options ...kgo.Opt) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := join(ctx, topic, group, options...)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := eventually(ctx, "the first has all", func() bool { return first.count() == 4 }); err != nil {
		return err
	}
	second, err := join(ctx, topic, group, options...)
	if err != nil {
		return err
	}
	defer second.Close()
	even := func() bool { return first.count() == 2 && second.count() == 2 }
	if err := eventually(ctx, "two of two each", even); err != nil {
		return err
	}
	second.LeaveGroup()
	return eventually(ctx, "the first has all again", func() bool { return first.count() == 4 })
}

func static(ctx context.Context, topic, group string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var generations []int32
	for range 2 {
		one, err := join(ctx, topic, group, kgo.InstanceID("one"))
		if err != nil {
			return err
		}
		err = eventually(ctx, "it has all", func() bool { return one.count() == 4 })
		_, generation := one.GroupMetadata()
		generations = append(generations, generation)
		one.Close()
		if err != nil {
			return err
		}
	}
	if generations[0] != generations[1] {
		return fmt.Errorf("a rebalance for a static member that came back: generations %v", generations)
	}
	return nil
}

// read takes so many records of partition 0 from the start.
func read(ctx context.Context, topic string, count int, level kgo.IsolationLevel) ([]string, error) {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	reader, err := client(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var found []string
	for len(found) < count {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, fmt.Errorf("%w after %d of %d records", err, len(found), count)
		}
		fetched.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	return found, nil
}

func expect(ctx context.Context, topic string, level kgo.IsolationLevel, expected []string) error {
	found, err := read(ctx, topic, len(expected), level)
	if err == nil && !slices.Equal(found, expected) {
		err = fmt.Errorf("expected %v, found %v", expected, found)
	}
	return err
}

func compression(ctx context.Context, topic, _ string) error {
	var sent []string
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		producer, err := client(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return err
		}
		defer producer.Close()
		var records []*kgo.Record
		for number := range 50 {
			value := fmt.Sprintf("%s%d", name, number)
			sent = append(sent, value)
			records = append(records, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)})
		}
		if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
	}
	return expect(ctx, topic, kgo.ReadUncommitted(), sent)
}

// transactions moves records from partition 1 to partition 0, with the offsets of the group, in a session.
func transactions(ctx context.Context, topic, id string, options ...kgo.Opt) error {
	source, err := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer source.Close()
	record := &kgo.Record{Topic: topic, Partition: 1, Value: []byte("in")}
	if err := source.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(append(options,
		kgo.SeedBrokers(servers...),
		kgo.TransactionalID(id),
		kgo.ConsumerGroup(id),
		kgo.ConsumeTopics(topic),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, keep := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		// the record is fetched again after the abort, as its offset was not committed
		fetched := session.PollFetches(ctx)
		for fetched.NumRecords() == 0 && ctx.Err() == nil {
			fetched = session.PollFetches(ctx)
		}
		if err := fetched.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		value := fmt.Sprintf("kept %v", keep)
		out := &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)}
		if err := session.ProduceSync(ctx, out).FirstErr(); err != nil {
			return err
		}
		committed, err := session.End(ctx, keep)
		if err != nil {
			return err
		}
		if committed != bool(keep) {
			return fmt.Errorf("committed: %v, wanted: %v", committed, keep)
		}
	}
	if err := expect(ctx, topic, kgo.ReadCommitted(), []string{"kept true"}); err != nil {
		return err
	}
	return expect(ctx, topic, kgo.ReadUncommitted(), []string{"kept false", "kept true"})
}

func fencing(ctx context.Context, topic, id string) error {
	options := []kgo.Opt{kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	first, err := client(options...)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := produced(ctx, first, topic, "lost"); err != nil {
		return err
	}
	second, err := client(options...)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := produced(ctx, second, topic, "kept"); err != nil {
		return err
	}
	err = first.EndTransaction(ctx, kgo.TryCommit)
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		return fmt.Errorf("the first was not fenced, but: %v", err)
	}
	if err := second.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	return expect(ctx, topic, kgo.ReadCommitted(), []string{"kept"})
}

func produced(ctx context.Context, producer *kgo.Client, topic, value string) error {
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	return producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)}).FirstErr()
}
