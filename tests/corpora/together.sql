-- Several views in one query: sales of shops to customers.
/*table*/ CREATE TABLE sales (id INT, shop INT, customer INT, day DATE, pieces INT, amount DECIMAL(12,2)) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (id); NOT NULL (shop); FOREIGN KEY (shop) REFERENCES shops (shop)');
/*table*/ CREATE TABLE lines (id INT, line INT, item INT, pieces INT, price DECIMAL(12,2)) USING parquet;
/*table*/ CREATE TABLE shops (shop INT, city STRING, kind INT) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (shop)');
/*table*/ CREATE TABLE customers (customer INT, name STRING, city STRING, kind INT) USING parquet;
/*table*/ CREATE TABLE refunds (id INT, shop INT, day DATE, amount DECIMAL(12,2)) USING parquet;

-- each takes the place of other tables
/*view*/ SELECT s.day, s.customer, l.item, sum(l.pieces) AS pieces, sum(l.price) AS price, count(*) AS n FROM sales s JOIN lines l ON s.id = l.id GROUP BY s.day, s.customer, l.item;
/*view*/ SELECT customer, name, city FROM customers WHERE kind < 5;
/*together*/ SELECT c.city, sum(l.price) AS price FROM sales s JOIN lines l ON s.id = l.id JOIN customers c ON c.customer = s.customer WHERE c.kind < 5 GROUP BY c.city;
/*together*/ SELECT c.name, l.item, count(*) AS n FROM customers c, lines l, sales s WHERE s.id = l.id AND c.customer = s.customer AND c.kind < 5 AND s.day >= DATE '2023-10-03' GROUP BY c.name, l.item HAVING count(*) > 1;
/*together*/ SELECT c.city, sum(l.pieces) AS a, max(s.day) AS d FROM sales s JOIN lines l ON s.id = l.id LEFT JOIN (SELECT customer, city FROM customers WHERE kind < 5) c ON c.customer = s.customer GROUP BY c.city;
/*used*/ SELECT c.city, sum(l.price) AS price FROM sales s JOIN lines l ON s.id = l.id JOIN customers c ON c.customer = s.customer GROUP BY c.city;
/*not*/ SELECT s.shop, sum(l.price) AS price FROM sales s JOIN lines l ON s.id = l.id GROUP BY s.shop;
/*not*/ SELECT c.kind, count(*) AS n FROM customers c GROUP BY c.kind;

-- both group
/*view*/ SELECT shop, customer, sum(amount) AS amount, count(*) AS n FROM sales GROUP BY shop, customer;
/*view*/ SELECT shop, city, count(*) AS n FROM shops GROUP BY shop, city;
/*view*/ SELECT DISTINCT customer, city FROM customers;
/*used*/ SELECT h.city, sum(s.amount) AS a FROM sales s JOIN shops h ON s.shop = h.shop GROUP BY h.city;
/*together*/ SELECT s.shop, s.amount FROM (SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop) s JOIN (SELECT DISTINCT customer, city FROM customers) c ON c.customer = s.shop;
/*together*/ SELECT a.shop, a.amount, b.n FROM (SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop) a JOIN (SELECT shop, count(*) AS n FROM shops GROUP BY shop) b ON a.shop = b.shop;
/*not*/ SELECT h.kind, count(*) AS n FROM shops h GROUP BY h.kind;

-- each answers another part
/*view*/ SELECT day, shop, sum(amount) AS amount FROM sales GROUP BY day, shop;
/*view*/ SELECT day, shop, sum(amount) AS amount FROM refunds GROUP BY day, shop;
/*together*/ SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop UNION ALL SELECT shop, sum(amount) AS amount FROM refunds GROUP BY shop;
/*together*/ SELECT a.day, a.sold - coalesce(b.refunded, 0) AS net FROM (SELECT day, sum(amount) AS sold FROM sales GROUP BY day) a LEFT JOIN (SELECT day, sum(amount) AS refunded FROM refunds GROUP BY day) b ON a.day = b.day;
/*together*/ WITH sold AS (SELECT shop, sum(amount) AS amount FROM sales WHERE day >= DATE '2023-06-01' GROUP BY shop), back AS (SELECT shop, sum(amount) AS amount FROM refunds WHERE day >= DATE '2023-06-01' GROUP BY shop) SELECT h.city, sum(sold.amount) AS sold, sum(back.amount) AS refunded FROM shops h JOIN sold ON sold.shop = h.shop LEFT JOIN back ON back.shop = h.shop GROUP BY h.city ORDER BY h.city;
/*together*/ SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop HAVING sum(amount) > (SELECT max(amount) FROM (SELECT shop, sum(amount) AS amount FROM refunds GROUP BY shop));
/*used*/ SELECT sum(amount) AS amount FROM sales UNION ALL SELECT max(amount) AS amount FROM refunds;
/*not*/ SELECT s.day, max(s.amount) AS a FROM sales s JOIN refunds r ON s.id = r.id GROUP BY s.day;

-- three views
/*view*/ SELECT id, shop, customer, amount FROM sales WHERE pieces > 2;
/*view*/ SELECT shop, city FROM shops;
/*view*/ SELECT customer, name FROM customers;
/*together*/ SELECT s.id, h.city, c.name, s.amount FROM sales s JOIN shops h ON h.shop = s.shop JOIN customers c ON c.customer = s.customer WHERE s.pieces > 2;
/*together*/ SELECT h.city, c.name, sum(s.amount) AS a FROM sales s JOIN shops h ON h.shop = s.shop LEFT JOIN customers c ON c.customer = s.customer WHERE s.pieces > 2 GROUP BY h.city, c.name;
/*together*/ SELECT h.city, c.name FROM shops h CROSS JOIN customers c;
/*together*/ SELECT h.city, c.name, sum(s.amount) AS a FROM sales s JOIN shops h ON h.shop = s.shop JOIN customers c ON c.customer = s.customer WHERE s.pieces > 2 GROUP BY ROLLUP (h.city, c.name);

-- views of views
/*view*/ SELECT day, shop, customer, sum(amount) AS amount, count(*) AS n, max(amount) AS most FROM sales GROUP BY day, shop, customer;
/*view*/ SELECT shop, customer, sum(amount) AS amount, sum(n) AS n, max(most) AS most FROM view_11 GROUP BY shop, customer;
/*view*/ SELECT v.shop, h.city, sum(v.amount) AS amount, sum(v.n) AS n FROM view_12 v JOIN shops h ON h.shop = v.shop GROUP BY v.shop, h.city;
/*used*/ SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop;
/*above*/ SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop;
/*above*/ SELECT shop, customer, count(*) AS n, max(amount) AS m FROM sales WHERE shop > 3 GROUP BY shop, customer;
/*above*/ SELECT h.city, sum(s.amount) AS a FROM sales s JOIN shops h ON h.shop = s.shop GROUP BY h.city;
/*used*/ SELECT customer, sum(amount) AS a FROM view_11 WHERE shop = 3 GROUP BY customer;
/*used*/ SELECT day, sum(amount) AS amount FROM sales GROUP BY day;
/*used*/ SELECT shop, sum(amount) AS a FROM sales WHERE day >= DATE '2023-10-03' GROUP BY shop;
/*not*/ SELECT shop, count(DISTINCT pieces) AS c FROM sales GROUP BY shop;
/*not*/ SELECT h.kind, sum(s.amount) AS a FROM sales s JOIN shops h ON h.shop = s.shop AND s.pieces = h.kind GROUP BY h.kind;

-- tables joined with themselves
/*view*/ SELECT id, shop, day, amount FROM sales WHERE pieces > 2;
/*used*/ SELECT a.id, b.amount FROM sales a JOIN sales b ON a.shop = b.shop AND a.day = b.day WHERE b.pieces > 2;
/*used*/ SELECT a.id, b.amount FROM sales a JOIN sales b ON a.shop = b.shop AND a.day = b.day WHERE a.pieces > 2;
/*used*/ SELECT a.shop, sum(b.amount) AS s FROM sales a JOIN sales b ON a.shop = b.shop LEFT JOIN sales c ON c.id = a.id WHERE b.pieces > 2 GROUP BY a.shop;
/*not*/ SELECT a.id, b.amount FROM sales a JOIN sales b ON a.shop = b.shop AND a.customer = b.customer WHERE a.pieces > 2;
/*view*/ SELECT a.id AS one, b.id AS other, a.amount - b.amount AS d, a.shop FROM sales a JOIN sales b ON a.shop = b.shop AND a.day < b.day;
/*used*/ SELECT x.id, y.id AS z, x.amount - y.amount AS d FROM sales x JOIN sales y ON x.shop = y.shop AND x.day < y.day WHERE x.shop > 3;
/*used*/ SELECT y.id, x.id AS z FROM sales x JOIN sales y ON x.shop = y.shop AND x.day > y.day;
/*used*/ SELECT h.city, x.id FROM sales x JOIN sales y ON x.shop = y.shop AND x.day < y.day JOIN shops h ON h.shop = y.shop;
/*not*/ SELECT x.id, y.id AS z FROM sales x JOIN sales y ON x.shop = y.shop AND x.day <= y.day;
/*not*/ SELECT x.id, y.amount FROM sales x JOIN sales y ON x.shop = y.shop AND x.day < y.day;
/*view*/ SELECT s.shop, sum(s.amount) AS amount, count(*) AS n FROM sales s GROUP BY s.shop;
/*used*/ SELECT a.id, sum(b.amount) AS s FROM sales a JOIN sales b ON a.shop = b.shop GROUP BY a.id;
/*used*/ SELECT g.city, h.city AS other, sum(s.amount) AS s FROM sales s JOIN shops g ON g.shop = s.shop JOIN shops h ON h.shop = s.shop WHERE h.kind > 3 GROUP BY g.city, h.city;
/*not*/ SELECT a.shop, sum(a.amount + b.amount) AS s FROM sales a JOIN sales b ON a.shop = b.shop GROUP BY a.shop;

-- EXISTS and IN within OR
/*view*/ SELECT id, shop, customer, day, amount FROM sales WHERE pieces > 5 OR EXISTS (SELECT 1 FROM shops h WHERE h.shop = sales.shop AND h.kind > 3);
/*used*/ SELECT customer, sum(amount) AS a FROM sales WHERE pieces > 5 OR EXISTS (SELECT 1 FROM shops h WHERE h.shop = sales.shop AND h.kind > 3) GROUP BY customer;
/*used*/ SELECT id FROM sales WHERE (EXISTS (SELECT 1 FROM shops h WHERE h.shop = sales.shop AND h.kind > 3) OR pieces > 5) AND day >= DATE '2023-10-03';
/*not*/ SELECT id FROM sales WHERE pieces > 5 OR EXISTS (SELECT 1 FROM shops h WHERE h.shop = sales.shop AND h.kind > 4);
/*not*/ SELECT id FROM sales WHERE pieces > 5 OR NOT EXISTS (SELECT 1 FROM shops h WHERE h.shop = sales.shop AND h.kind > 3);
/*not*/ SELECT id FROM sales WHERE pieces > 5;
/*view*/ SELECT shop, customer, day, sum(amount) AS amount, count(*) AS n FROM sales GROUP BY shop, customer, day;
/*used*/ SELECT customer, sum(amount) AS a FROM sales WHERE day >= DATE '2023-10-03' OR shop IN (SELECT shop FROM shops WHERE kind > 3) GROUP BY customer;
/*used*/ SELECT day, count(*) AS n FROM sales WHERE customer = 3 OR customer NOT IN (SELECT customer FROM customers WHERE kind < 5) GROUP BY day;
/*used*/ SELECT day, count(*) AS n, sum(amount) AS a FROM sales s WHERE NOT EXISTS (SELECT 1 FROM refunds r WHERE r.shop = s.shop AND r.day = s.day) OR customer > 4 GROUP BY day;
/*not*/ SELECT day, count(*) AS n FROM sales s WHERE customer = 3 OR EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id) GROUP BY day;

-- IN as EXISTS
/*view*/ SELECT id, shop, customer, amount FROM sales WHERE shop IN (SELECT shop FROM shops WHERE kind > 3);
/*used*/ SELECT customer, sum(amount) AS a FROM sales s WHERE EXISTS (SELECT 1 FROM shops h WHERE h.kind > 3 AND s.shop = h.shop) GROUP BY customer;
/*not*/ SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM shops h WHERE h.kind > 3 AND s.customer = h.shop);
/*not*/ SELECT id FROM sales WHERE shop NOT IN (SELECT shop FROM shops WHERE kind > 3);

-- a view with several sets of keys
/*view*/ SELECT day, shop, customer, grouping_id(day, shop, customer) AS level, sum(amount) AS amount, count(*) AS n FROM sales GROUP BY ROLLUP (day, shop, customer);
/*used*/ SELECT day, shop, sum(amount) AS a FROM sales GROUP BY day, shop;
/*used*/ SELECT year(day) AS y, count(*) AS n FROM sales WHERE day >= DATE '2023-10-03' GROUP BY year(day);
/*used*/ SELECT customer, sum(amount) AS a FROM sales GROUP BY customer HAVING count(*) > 2;
/*used*/ SELECT h.city, sum(s.amount) AS a FROM sales s JOIN shops h ON h.shop = s.shop GROUP BY h.city;
/*used*/ SELECT day, shop, customer, grouping_id(day, shop, customer) AS level, sum(amount) AS amount, count(*) AS n FROM sales GROUP BY ROLLUP (day, shop, customer);
/*not*/ SELECT day, max(amount) AS m FROM sales GROUP BY day;
/*view*/ SELECT shop, customer, grouping(shop) AS all_shops, grouping(customer) AS all_customers, count(*) AS n, max(amount) AS most FROM sales WHERE pieces > 2 GROUP BY CUBE (shop, customer);
/*used*/ SELECT customer, max(amount) AS m FROM sales WHERE pieces > 2 GROUP BY customer;
/*used*/ SELECT shop, customer, count(*) AS n FROM sales WHERE pieces > 2 AND customer > 3 GROUP BY shop, customer;
/*not*/ SELECT customer, max(amount) AS m FROM sales GROUP BY customer;
/*view*/ SELECT shop, customer, count(*) AS n FROM sales GROUP BY GROUPING SETS ((shop, customer), (shop), (shop));
/*not*/ SELECT shop, max(day) AS d FROM sales GROUP BY shop;

-- the query chooses a set of its own keys
/*view*/ SELECT day, customer, sum(amount) AS amount, count(*) AS n FROM sales GROUP BY day, customer;
/*used*/ SELECT day, customer, sum(amount) AS a FROM sales GROUP BY CUBE (day, customer) HAVING grouping_id(day, customer) = 1;
/*used*/ SELECT day, customer, grouping(day) AS g, sum(amount) AS a FROM sales GROUP BY GROUPING SETS ((day, customer), (customer), ()) HAVING grouping(day) = 1;

-- FULL JOIN
/*view*/ SELECT s.id, s.shop, s.amount, h.shop AS other, h.city FROM sales s FULL JOIN shops h ON s.shop = h.shop;
/*used*/ SELECT h.city, s.amount FROM sales s FULL JOIN shops h ON s.shop = h.shop;
/*used*/ SELECT h.city, sum(s.amount) AS a FROM sales s FULL JOIN shops h ON s.shop = h.shop GROUP BY h.city;
/*used*/ SELECT s.id, h.city FROM sales s LEFT JOIN shops h ON s.shop = h.shop;
/*used*/ SELECT h.city, count(*) AS n FROM sales s JOIN shops h ON s.shop = h.shop GROUP BY h.city;
/*used*/ SELECT h.city FROM sales s FULL JOIN shops h ON s.shop = h.shop WHERE s.id IS NULL;
/*not*/ SELECT h.city, s.amount FROM sales s FULL JOIN shops h ON s.shop = h.shop AND h.kind > 3;
/*not*/ SELECT s.id, c.name FROM sales s FULL JOIN customers c ON s.customer = c.customer;
/*view*/ SELECT r.shop, r.amount, h.shop AS other, h.city FROM refunds r FULL JOIN shops h ON r.shop = h.shop;
/*used*/ SELECT h.city, r.amount FROM refunds r JOIN shops h ON r.shop = h.shop WHERE r.shop > 3;
/*not*/ SELECT h.city, r.amount FROM refunds r LEFT JOIN shops h ON r.shop = h.shop;

-- ranks in the view
/*view*/ SELECT id, shop, customer, amount, rank() OVER (PARTITION BY shop ORDER BY amount DESC) AS place FROM sales WHERE pieces > 2;
/*used*/ SELECT id, shop FROM (SELECT id, shop, rank() OVER (PARTITION BY shop ORDER BY amount DESC) AS r FROM sales WHERE pieces > 2) WHERE r <= 3;
/*used*/ SELECT shop, sum(amount) AS a FROM (SELECT shop, amount, rank() OVER (PARTITION BY shop ORDER BY amount DESC) AS r FROM sales WHERE pieces > 2) WHERE r <= 3 GROUP BY shop;
/*used*/ SELECT shop, sum(amount) AS a FROM sales WHERE pieces > 2 GROUP BY shop;
/*used*/ SELECT id, rank() OVER (PARTITION BY shop ORDER BY amount DESC) AS r FROM sales WHERE pieces > 2 AND customer > 3;
/*not*/ SELECT id, rank() OVER (PARTITION BY shop ORDER BY amount DESC) AS r FROM sales;
/*not*/ SELECT id, rank() OVER (PARTITION BY shop ORDER BY day) AS r FROM sales WHERE pieces > 2;
