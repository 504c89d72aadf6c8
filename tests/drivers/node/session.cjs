// Runs one session of hive-driver: reads its steps from standard input as JSON and prints the outcome of each as JSON.
//
// Input: {"host", "port", "user", "sasl", "database", "steps": [...]}; over HTTP "path" and "password" replace "sasl".
// A step is {"sql"}, {"sql", "maxRows"}, {"sql", "cancel": true}, {"sql", "seconds"} (its time limit), {"info"}, or
// {"call": "getTables", "request": {...}}. An outcome is {"rows", "fetches"}, or {"failed": class, message, state}.
'use strict';

const hive = require('hive-driver');

const { TCLIService, TCLIService_types: types } = hive.thrift;
const tools = new hive.HiveUtils(types);

async function main() {
    const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));
    const client = new hive.HiveClient(TCLIService, types);
    client.on('error', (error) => { process.stderr.write(`${error}\n`); });
    await connect(client, given);
    const session = await client.openSession({
        client_protocol: types.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V10,
        username: given.user,
        configuration: { 'use:database': given.database },
    });
    const outcomes = [];
    for (const step of given.steps) {
        outcomes.push(await outcome(session, step));
    }
    await session.close();
    client.close();
    process.stdout.write(JSON.stringify(outcomes, unusual));
}

async function connect(client, given) {
    const { host, port, user } = given;
    if (given.path) {
        const login = new hive.auth.PlainHttpAuthentication({ username: user, password: given.password });
        await client.connect({ host, port, options: { path: given.path } }, new hive.connections.HttpConnection(), login);
        return;
    }
    const login = given.sasl
        ? new hive.auth.PlainTcpAuthentication({ username: user, password: 'anonymous' })
        : new hive.auth.NoSaslAuthentication();
    await client.connect({ host, port }, new hive.connections.TcpConnection(), login);
}

async function outcome(session, step) {
    let operation = null;
    try {
        if (step.info !== undefined) {
            return { rows: [(await session.getInfo(step.info)).getValue()] };
        }
        operation = step.call
            ? await session[step.call](step.request)
            : await session.executeStatement(step.sql, { runAsync: true, queryTimeout: step.seconds });
        if (step.maxRows) {
            operation.setMaxRows(step.maxRows);
        }
        if (step.cancel) {
            await operation.cancel();
        }
        await tools.waitUntilReady(operation, false);
        await tools.fetchAll(operation);
        const rows = tools.getResult(operation).getValue() || [];
        return { rows, fetches: operation.getData().length };
    } catch (error) {
        const response = error.response || {};
        return {
            failed: error.name,
            message: response.errorMessage || error.message,
            state: response.sqlState || null,
        };
    } finally {
        if (operation !== null) {
            await operation.close().catch(() => undefined);
        }
    }
}

// Writes values that JSON cannot express: special numbers as text, binary as hexadecimal digits.
function unusual(_, value) {
    if (typeof value === 'number' && !Number.isFinite(value)) {
        return String(value);
    }
    return value && value.type === 'Buffer' ? Buffer.from(value.data).toString('hex') : value;
}

main().catch((error) => {
    process.stderr.write(`${error.stack || JSON.stringify(error)}\n`);
    process.exit(1);
});
