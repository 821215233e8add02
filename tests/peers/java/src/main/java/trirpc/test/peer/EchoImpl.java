package trirpc.test.peer;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.StatusRpcException;
import org.apache.dubbo.rpc.TriRpcStatus;
import trirpc.test.v1.CollectReply;
import trirpc.test.v1.DubboEchoTriple;
import trirpc.test.v1.ExpandRequest;
import trirpc.test.v1.FailRequest;
import trirpc.test.v1.MetaEntry;
import trirpc.test.v1.MetaReply;
import trirpc.test.v1.MetaRequest;
import trirpc.test.v1.SayReply;
import trirpc.test.v1.SayRequest;
import trirpc.test.v1.SleepRequest;

/** The Echo service on dubbo-java's generated stub. The rules of each method are in echo.proto. */
public final class EchoImpl extends DubboEchoTriple.EchoImplBase {
    static StatusRpcException status(int code, String message) {
        return TriRpcStatus.fromCode(code).withDescription(message).asException();
    }

    SayReply reply(SayRequest q) {
        ByteString body = q.getReplySize() > 0 ? ByteString.copyFrom(new byte[q.getReplySize()]) : q.getPayload();
        return SayReply.newBuilder()
                .setText("echo:" + q.getText())
                .setPayload(body)
                .setSequenceId(q.getSequenceId())
                .build();
    }

    @Override
    public SayReply say(SayRequest q) {
        return reply(q);
    }

    @Override
    public StreamObserver<SayRequest> collect(StreamObserver<CollectReply> out) {
        return new StreamObserver<>() {
            final List<String> texts = new ArrayList<>();
            long bytes;

            @Override
            public void onNext(SayRequest q) {
                texts.add(q.getText());
                bytes += q.getPayload().size();
            }

            @Override
            public void onError(Throwable t) {}

            @Override
            public void onCompleted() {
                out.onNext(CollectReply.newBuilder()
                        .setCount(texts.size())
                        .setPayloadBytes(bytes)
                        .setTexts(String.join(",", texts))
                        .build());
                out.onCompleted();
            }
        };
    }

    @Override
    public void expand(ExpandRequest q, StreamObserver<SayReply> out) {
        ByteString body = ByteString.copyFrom(new byte[q.getSize()]);
        for (int i = 0; i < q.getCount(); i++) {
            if (i > 0 && q.getIntervalMs() > 0) {
                pause(q.getIntervalMs());
            }
            out.onNext(SayReply.newBuilder()
                    .setText("expand:" + i)
                    .setSequenceId(i)
                    .setPayload(body)
                    .build());
        }
        if (q.getEndCode() == 0) {
            out.onCompleted();
        } else {
            out.onError(status(q.getEndCode(), q.getEndMessage()));
        }
    }

    @Override
    public StreamObserver<SayRequest> chat(StreamObserver<SayReply> out) {
        return new StreamObserver<>() {
            boolean ended;

            @Override
            public void onNext(SayRequest q) {
                if (ended) {
                    return;
                }
                if (q.getText().startsWith("fail:")) {
                    ended = true;
                    out.onError(status(9, q.getText().substring(5)));
                } else {
                    out.onNext(reply(q));
                }
            }

            @Override
            public void onError(Throwable t) {
                ended = true;
            }

            @Override
            public void onCompleted() {
                if (!ended) {
                    out.onCompleted();
                }
            }
        };
    }

    /** dubbo-java has no way to attach google.rpc details to a status; they are dropped. */
    @Override
    public SayReply fail(FailRequest q) {
        if (q.getCode() == 0) {
            return SayReply.getDefaultInstance();
        }
        throw status(q.getCode(), q.getMessage());
    }

    /**
     * A unary handler of dubbo-java cannot tell that the call was cancelled:
     * RpcContext.getCancellationContext() may be left over from another call.
     */
    @Override
    public SayReply sleep(SleepRequest q) {
        pause(q.getMillis());
        return SayReply.newBuilder().setText("slept").build();
    }

    /**
     * dubbo-java gives handlers one value per key and keeps header and trailer
     * apart only by its own rules, so both reply names are set as attachments.
     */
    @Override
    public MetaReply meta(MetaRequest q) {
        Map<String, Object> in = new TreeMap<>(RpcContext.getServerAttachment().getObjectAttachments());
        MetaReply.Builder reply =
                MetaReply.newBuilder().setPayload(ByteString.copyFrom(new byte[q.getReplySize()]));
        in.forEach((key, value) -> {
            MetaEntry.Builder entry = MetaEntry.newBuilder();
            if (value instanceof byte[] bin) {
                // The suffix is taken off on the way in, and put on again on the way out.
                entry.setKey(key + "-bin").addBinValues(ByteString.copyFrom(bin));
            } else {
                entry.setKey(key).addValues(String.valueOf(value));
            }
            reply.addSeen(entry);
            if (key.startsWith("x-echo-")) {
                RpcContext.getServerContext().setObjectAttachment("x-head-" + key.substring(7), value);
                RpcContext.getServerContext().setObjectAttachment("x-trail-" + key.substring(7), value);
            }
        });
        return reply.build();
    }

    static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
