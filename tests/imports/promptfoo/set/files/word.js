module.exports = () => "bc";
