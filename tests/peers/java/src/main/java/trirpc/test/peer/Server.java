package trirpc.test.peer;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import trirpc.test.v1.Echo;

/** A dubbo-java provider of the Echo service without a registry: Server [--addr HOST:PORT]. */
public final class Server {
    public static void main(String[] args) throws Exception {
        Arguments arguments = new Arguments(args);
        // Otherwise it binds another address of the machine than the one asked for.
        System.setProperty("dubbo.network.interface.ignored", ".*");
        // Health, which is off by default.
        System.setProperty("dubbo.tri.builtin.service.init", "true");
        String[] addr = arguments.get("addr", "127.0.0.1:0").split(":");
        int port = Integer.parseInt(addr[1]) == 0 ? freePort(addr[0]) : Integer.parseInt(addr[1]);
        ApplicationConfig app = new ApplicationConfig("java-peer-server");
        app.setQosEnable(false);
        ProtocolConfig tri = new ProtocolConfig("tri", port);
        tri.setHost(addr[0]);
        ServiceConfig<Echo> service = new ServiceConfig<>();
        service.setInterface(Echo.class);
        service.setRef(new EchoImpl());
        DubboBootstrap.getInstance()
                .application(app)
                .registry(new RegistryConfig("N/A"))
                .protocol(tri)
                .service(service)
                .start();
        System.out.println("listening on " + addr[0] + ":" + port);
        new CountDownLatch(1).await();
    }

    /** dubbo-java cannot pick a port itself. */
    private static int freePort(String host) throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(host))) {
            return socket.getLocalPort();
        }
    }
}
